#!/usr/bin/env python3
"""How long estop takes to start enforcing on a large store: 10,000 agents, 1,000,000 records.

Usage: bench/start/run.py [--agents N] [--records N] [--profile release|debug] [--estop FILE]
(builds the store's maker, and estop unless it is named)

Printed: time from the start of the process to its first refusal or answer, and how long the API's lists and the dashboard's pages take.
"""

import argparse
import http.client
import os
import pathlib
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIG = """
listen: {data: 127.0.0.1:0, admin: 127.0.0.1:0}
limits: {agents: 100000}
providers: {openai: {base_url: "http://127.0.0.1:9"}}
"""
PAGES = [
    "/api/agents?limit=100",
    "/api/agents/agent-77",
    "/api/events?limit=100",
    "/api/events?agent=agent-77",
    "/api/incidents",
    "/api/escalations",
    "/api/spend?by=agent",
    "/api/stats",
    "/",
    "/agents/agent-77",
    "/agents/agent-77/requests",
    "/incidents",
    "/needs-human",
    "/alerts",
    "/spend",
    "/journal",
    "/settings",
]


class Owner(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("localhost")
        self.path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def asked(address, agent):
    connection = http.client.HTTPConnection(address, timeout=20)
    body = '{"model":"m","messages":[{"role":"user","content":"Hello"}]}'
    connection.request("POST", f"/agents/{agent}/openai/v1/chat/completions", body, {"content-type": "application/json"})
    return connection.getresponse().status


RUNNING = []
# Unlocking needs the admin token. It has the form of one that estop makes: no start waits for a slow hash.
ENVIRONMENT = {**os.environ, "ESTOP_ADMIN_TOKEN": "estop_admin_" + "0123456789abcdef" * 4}


def serve(binary, folder):
    """A daemon that listens, and where."""
    line = [str(binary), "serve", "--config", "estop.yaml", "--data-dir", "data"]
    process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    RUNNING.append(process)
    return process, process.stdout.readline().split("//")[1].strip()


def unlock(binary, folder):
    """A database without its latch comes up shut, rightly: somebody looks and clears it, once."""
    process, _ = serve(binary, folder)
    for step in ("restart", "clear"):
        command = [str(binary), "emergency", step, "--data-dir", "data", "--reason", "a new database"]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL, env=ENVIRONMENT)
    process.terminate()
    process.wait()


def start(binary, folder):
    begun = time.monotonic()
    process, address = serve(binary, folder)
    status = asked(address, "agent-77")
    if status != 502:
        sys.exit(f"the first answer is {status}, not 502: nobody listens at the provider's address")
    return process, time.monotonic() - begun


def page(folder, path):
    times = []
    for _ in range(5):
        connection = Owner(folder / "data" / "estop.sock")
        begun = time.monotonic()
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        times.append(time.monotonic() - begun)
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status}")
    return 1000 * statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=10_000)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--profile", default="release", choices=["release", "debug"])
    parser.add_argument("--estop", type=pathlib.Path, help="measure this one, and build none")
    options = parser.parse_args()
    build = ["cargo", "build", "--locked", "--package", "estop-bench"]
    if not options.estop:
        build += ["--package", "estop"]
    subprocess.run(build + (["--release"] if options.profile == "release" else []), cwd=ROOT, check=True)
    binaries = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
    estop = (options.estop or binaries / "estop").resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-start-"))
    try:
        (folder / "estop.yaml").write_text(CONFIG)
        subprocess.run([binaries / "big_store", folder / "data", str(options.agents), str(options.records)], check=True)
        size = sum(file.stat().st_size for file in (folder / "data").iterdir()) / 1e6
        print(f"{options.agents} agents, {options.records} records, {size:.0f} MB")
        unlock(estop, folder)
        times = []
        for round_ in range(3):
            process, seconds = start(estop, folder)
            times.append(seconds)
            if round_ < 2:
                process.kill()
                process.wait()
        print(f"enforcing after {', '.join(f'{seconds:.2f}' for seconds in times)} s (aim: 1 s)")
        for path in PAGES:
            print(f"{path}: {page(folder, path):.1f} ms (aim: 50 ms)")
    finally:
        # However it ends, nobody is left behind.
        for process in RUNNING:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
