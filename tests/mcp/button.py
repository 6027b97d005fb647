"""Presses the button while calls run, through both gates. Run by run.py, with the SDK's Python, as the last part."""

import contextlib
import json
import pathlib
import subprocess
import sys
import time

import anyio
import mcp_types as types
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

at = json.loads(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
LOG = pathlib.Path(at["log"])
failed = []


def check(what, held, seen=""):
    print(f"  {'fine' if held else 'WRONG'}: {what}" + ("" if held else f" ({seen})"), flush=True)
    if not held:
        failed.append(what)


def transport(way):
    if way == "http":
        return streamable_http_client(f"{at['url']}/agents/pressed/mcp/probe")
    args = ["mcp", "--server", "probe", "--agent", "pressed", "--data-dir", at["data_dir"], "--",
            sys.executable, str(HERE / "server.py"), str(LOG), "stdio"]
    return stdio_client(StdioServerParameters(command=at["estop"], args=args))


async def main():
    LOG.write_text("")
    results = {}
    pressed = None
    async with contextlib.AsyncExitStack() as stack:
        clients = {way: await stack.enter_async_context(Client(transport(way), mode="legacy")) for way in ("stdio", "http")}
        for one in clients.values():
            await one.call_tool("add", {"a": 1, "b": 1})
        await anyio.sleep(0.5)

        async def call(way):
            try:
                results[way] = await clients[way].call_tool("slow")
            except Exception as error:
                results[way] = error

        async with anyio.create_task_group() as tasks:
            for way in clients:
                tasks.start_soon(call, way)
            with anyio.fail_after(10):
                while LOG.read_text().count("slow begins") < 2:
                    await anyio.sleep(0.02)
            pressed = time.monotonic()
            kill = [at["estop"], "kill", "--data-dir", at["data_dir"]]
            await anyio.to_thread.run_sync(lambda: subprocess.run(kill, check=True, capture_output=True))
            with anyio.move_on_after(10):
                while len(results) < 2:
                    await anyio.sleep(0.01)
            took = time.monotonic() - pressed
            tasks.cancel_scope.cancel()
        for way in clients:
            result = results.get(way)
            held = isinstance(result, types.CallToolResult) and result.is_error and "estop" in result.content[0].text
            check(f"{way}: the button stops a call with a tool error", held, repr(result))
        check(f"both within {took:.2f} s", took < 3, took)
        result = await clients["http"].call_tool("never")
        # Of the calls that were cancelled the server may still tell.
        check("http: nothing is forwarded after the button", result.is_error and "never" not in LOG.read_text(), result)
        with anyio.move_on_after(5):
            try:
                result = await clients["stdio"].call_tool("never")
                check("stdio: nothing is called after the button", result.is_error, result)
            except Exception as error:
                check("stdio: its server is gone", True, error)
        check("stdio: nothing is forwarded after the button", "never" not in LOG.read_text())
        stack.pop_all()
    # The transports of a server that was ended have nothing more to say.
    sys.stdout.flush()
    import os
    os._exit(1 if failed else 0)


anyio.run(main)
