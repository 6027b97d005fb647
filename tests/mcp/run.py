#!/usr/bin/env python3
"""Speaks through both MCP gates of a real estop with the official SDKs (TL-3).

Usage: tests/mcp/run.py [--binaries FOLDER]   (needs a built estop)

The SDK for Python and, if npm is there, the one for JavaScript with its test server are installed once, in pinned versions,
into ESTOP_TOOLS_CACHE (default ~/.cache/estop-tools). Where they cannot be got, the test is skipped and says so.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import journal_is_whole  # noqa: E402
import tools  # noqa: E402
WITHIN_S = 120
NPM = ["@modelcontextprotocol/sdk@1.32.2", "@modelcontextprotocol/server-everything@2026.8.31"]


def node_modules():
    """Where the SDK for JavaScript is; `None` if there is none."""
    if not shutil.which("npm"):
        return None
    folder = tools.cache("mcp-npm", " ".join(NPM).encode())
    if not (folder / "installed").exists():
        print("installing the MCP SDK for JavaScript …", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "package.json").write_text('{"private": true, "type": "module"}')
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund", *NPM], cwd=folder).returncode != 0:
            return None
        (folder / "installed").touch()
    return folder


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def until_open(port):
    end = time.monotonic() + 30
    while time.monotonic() < end:
        with socket.socket() as one:
            if one.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    sys.exit("the MCP server did not start")


def tried(python, modules, estop, folder):
    """Whether all went well."""
    log, port = folder / "server.log", free_port()
    env = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", NO_PROXY="127.0.0.1", PYTHONWARNINGS="ignore")
    for name in [name for name in env if name.startswith("ESTOP_")]:
        del env[name]
    line = [python, HERE / "server.py", log, "http", str(port)]
    server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
    config = {
        "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"},
        "mcp": {"servers": {"probe": {"url": f"http://127.0.0.1:{port}/mcp"}}}, "agents": {"banned": {}},
    }
    # JSON is YAML.
    (folder / "estop.yaml").write_text(json.dumps(config))
    daemon = subprocess.Popen(
        [estop, "serve", "--config", "estop.yaml", "--data-dir", "data"], cwd=folder, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=env,
    )
    try:
        found = (re.search(r" listening on (http\S+)", line) for line in daemon.stdout)
        url = next(filter(None, found)).group(1)
        threading.Thread(target=lambda: [None for _ in daemon.stdout], daemon=True).start()
        until_open(port)
        at = {"estop": str(estop), "data_dir": str(folder / "data"), "url": url, "log": str(log)}
        if modules:
            at["everything"] = str(modules / "node_modules/@modelcontextprotocol/server-everything/dist/index.js")
            script = modules / "drive.mjs"
            shutil.copy(HERE / "drive.mjs", script)
        fine = subprocess.run([python, HERE / "drive.py", json.dumps(at)], env=env, timeout=WITHIN_S).returncode == 0
        if modules:
            fine &= subprocess.run(["node", script, json.dumps(at)], env=env, timeout=WITHIN_S).returncode == 0
        # Last, because it ends the server behind the stdio gate: the button.
        fine &= subprocess.run([python, HERE / "button.py", json.dumps(at)], env=env, timeout=WITHIN_S).returncode == 0
    finally:
        daemon.terminate()
        daemon.wait(30)
        server.terminate()
        server.wait(30)
    return fine and journal_is_whole(estop, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", default="target/debug", type=pathlib.Path)
    estop = parser.parse_args().binaries.resolve() / "estop"
    if not estop.exists():
        sys.exit(f"{estop} is missing: cargo build -p estop")
    found = tools.python("mcp", HERE / "requirements.txt", "the MCP SDK for Python")
    if not found:
        print("The MCP SDK cannot be got: skipped.")
        return
    modules = node_modules()
    if not modules:
        print("The MCP SDK for JavaScript cannot be got: that part is skipped.")
    with tempfile.TemporaryDirectory() as folder:
        if not tried(found / "python", modules, estop, pathlib.Path(folder)):
            sys.exit("something went wrong, see above")
    print("MCP: all fine")


if __name__ == "__main__":
    main()
