"""Speaks through both gates as the official SDK does, and has calls stopped. Run by run.py, with the SDK's Python."""

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
failed = []


def check(what, held, seen=""):
    print(f"  {'fine' if held else 'WRONG'}: {what}" + ("" if held else f" ({seen})"), flush=True)
    if not held:
        failed.append(what)


def estop(*words):
    done = subprocess.run([at["estop"], *words, "--data-dir", at["data_dir"]], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"estop {words}: {done.stdout}{done.stderr}")


def seen():
    path = pathlib.Path(at["log"])
    return path.read_text() if path.exists() else ""


def fresh():
    pathlib.Path(at["log"]).write_text("")


async def until(what, ready, within_s=10):
    end = time.monotonic() + within_s
    while not ready():
        if time.monotonic() > end:
            check(what, False, "waited in vain")
            return
        await anyio.sleep(0.02)
    check(what, True)


def text(result):
    return result.content[0].text


@contextlib.asynccontextmanager
async def client(way, agent, **more):
    if way == "stdio":
        args = ["mcp", "--server", "probe", "--agent", agent, "--data-dir", at["data_dir"], "--",
                sys.executable, str(HERE / "server.py"), at["log"], "stdio"]
        transport = stdio_client(StdioServerParameters(command=at["estop"], args=args))
    else:
        transport = streamable_http_client(f"{at['url']}/agents/{agent}/mcp/probe")
    async with Client(transport, **more) as one:
        yield one


async def passes(way, mode):
    """Everything passes: lists, calls, progress, resources, and on older revisions sampling and changed lists."""
    said, notices = [], []

    async def sampling(context, params):
        said.append(params.messages[0].content.text)
        answer = types.TextContent(type="text", text="sampled ü")
        return types.CreateMessageResult(role="assistant", content=answer, model="m")

    async def handler(message):
        notices.append(type(message).__name__)

    async with client(way, "worker", mode=mode, sampling_callback=sampling, message_handler=handler) as one:
        version = one.protocol_version
        names = [tool.name for tool in (await one.list_tools()).tools]
        check(f"{way} {version}: lists its tools", "slow" in names and "add" in names, names)
        result = await one.call_tool("add", {"a": 1, "b": 2})
        check(f"{way} {version}: a call passes", text(result) == "3" and not result.is_error, result)
        steps = []

        async def progress(done, total, message):
            steps.append(message)

        await one.call_tool("count", progress_callback=progress)
        check(f"{way} {version}: progress passes", steps == ["step 1", "step 2", "step 3"], steps)
        found = await one.read_resource("note://one")
        check(f"{way} {version}: a resource passes", found.contents[0].text == "a note: ü", found)
        if mode == "legacy":
            asked = await one.call_tool("ask")
            check(f"{way} {version}: sampling passes", (said, text(asked)) == (["äöü?"], "sampled ü"), asked)
            await one.call_tool("grow")
            await until(f"{way} {version}: a changed list is told", lambda: "ToolListChangedNotification" in notices)


async def denied(way, mode):
    """A denied call is a tool error, and does not reach the server."""
    fresh()
    async with client(way, "banned", mode=mode) as one:
        result = await one.call_tool("never")
        check(f"{way} {mode}: a denied call is a readable tool error", result.is_error and "estop" in text(result), result)
        check(f"{way} {mode}: the server never saw it", "never" not in seen(), seen())
        names = [tool.name for tool in (await one.list_tools()).tools]
        check(f"{way} {mode}: nothing else is hidden", "never" in names, names)


async def stopped(way, mode):
    """A call under way when its agent is stopped."""
    fresh()
    agent = f"stopped-{way}-{mode}"
    async with client(way, agent, mode=mode) as one, anyio.create_task_group() as tasks:
        results = []
        # Once, so that the gate holds its line to estop.
        await one.call_tool("add", {"a": 1, "b": 1})
        await anyio.sleep(0.5)

        async def call():
            results.append(await one.call_tool("slow"))

        tasks.start_soon(call)
        await until(f"{way} {mode}: the call runs", lambda: "slow begins" in seen())
        begun = time.monotonic()
        await anyio.to_thread.run_sync(lambda: estop("agents", "deactivate", agent))
        await until(f"{way} {mode}: the client has its error", lambda: results)
        took = time.monotonic() - begun
        if results:
            check(f"{way} {mode}: as a tool error, after {took:.2f} s", results[0].is_error and took < 3, results)
        await until(f"{way} {mode}: the server sees that it is cancelled", lambda: "slow cancelled" in seen())
        result = await one.call_tool("never")
        check(f"{way} {mode}: what comes after is denied", result.is_error and "never" not in seen(), result)


async def main():
    estop("agents", "deactivate", "banned")
    for way in ("stdio", "http"):
        for mode in ("legacy", "auto"):
            await passes(way, mode)
            await denied(way, mode)
            await stopped(way, mode)


anyio.run(main)
sys.exit(1 if failed else 0)
