#!/usr/bin/env python3
"""How long the dashboard's pages take with many agents, what they weigh, and how often a page is told to look again.

Usage: bench/panel/run.py [--agents N] [--rounds N] [--binaries DIR | --profile release|debug]

Agents are made by traffic: each asks a fake model three times, every hundredth loops until it is stopped. Then estop is started
anew, so that it has read nothing yet, and half of them ask again. Printed for each page: p50 and p99 from the request to the
last byte on this machine, and bytes; then what a follower hears during a burst.
"""

import argparse
import concurrent.futures
import http.client
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TOKEN = "bench-panel-token"
WITHIN_S = 60
PAGES = [
    "/", "/?from=950", "/?find=agent-07", "/?show=stopped", "/agents/agent-0007", "/agents/agent-0000", "/incidents", "/needs-human",
    "/spend", "/spend?by=agent", "/spend?by=model", "/journal", "/journal?agent=agent-0000", "/connect", "/settings",
]
ASSETS = ["panel.css", "panel.js", "idiomorph.min.js", "icon.svg"]


class Estop:
    def __init__(self, binaries, folder):
        self.binaries, self.folder = binaries, folder
        self.model, address = self.start([binaries / "estop-fake-model"], "model.log", r"listening on (\S+)")
        config = {
            "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"},
            "limits": {"agents": 100_000},
            "providers": {"openai": {"base_url": address}},
            "policy": {"kill_switch_enabled": True},
        }
        (folder / "estop.yaml").write_text(json.dumps(config))
        self.open()

    def open(self):
        serve = [self.binaries / "estop", "serve", "--config", "estop.yaml", "--data-dir", "data"]
        self.process, _ = self.start(serve, "estop.log", r"Admin API: \S+")
        said = (self.folder / "estop.log").read_text()
        self.data = re.search(r"listening on http://(\S+)", said).group(1)
        self.admin = re.search(r"Admin API: http://([^/]+)/", said).group(1)

    def start(self, command, log, pattern):
        path = self.folder / log
        env = {**os.environ, "ESTOP_ADMIN_TOKEN": TOKEN}
        process = subprocess.Popen([str(part) for part in command], cwd=self.folder, env=env, stdout=path.open("wb"), stderr=subprocess.STDOUT)
        end = time.monotonic() + WITHIN_S
        while not (found := re.search(pattern, path.read_text())):
            if process.poll() is not None or time.monotonic() > end:
                sys.exit(f"{log}: {path.read_text()}")
            time.sleep(0.02)
        return process, found.group(1) if found.groups() else None

    def close(self):
        for process in (self.process, self.model):
            process.terminate()
            process.wait(WITHIN_S)

    def ask(self, connection, agent, text):
        body = json.dumps({"model": "gpt-4o", "messages": [{"role": "user", "content": text}]})
        connection.request("POST", f"/agents/{agent}/openai/v1/chat/completions", body, {"content-type": "application/json"})
        answer = connection.getresponse()
        answer.read()
        return answer.status

    def traffic(self, numbers):
        """These agents work, on one connection."""
        connection = http.client.HTTPConnection(self.data, timeout=WITHIN_S)
        words = "parser ledger river window orchard compass lantern harbour index thread canvas signal".split()
        for number in numbers:
            loops = number % 100 == 0
            for step in range(30 if loops else 3):
                text = "Is the build done?" if loops else f"{words[(number + step * 5) % 12]} and {words[(number * 7 + step) % 12]}"
                if self.ask(connection, f"agent-{number:04}", text) != 200:
                    break

    def page(self, connection, path):
        begun = time.perf_counter()
        connection.request("GET", path, headers={"authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        body = answer.read()
        if answer.status != 200:
            sys.exit(f"{path}: {answer.status}")
        return 1000 * (time.perf_counter() - begun), len(body)


def work(estop, agents):
    shares = [range(start, agents, 8) for start in range(8)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(estop.traffic, shares))


def pages(estop, rounds):
    connection = http.client.HTTPConnection(estop.admin, timeout=WITHIN_S)
    dress = sum(estop.page(connection, f"/assets/{asset}")[1] for asset in ASSETS)
    first, _ = estop.page(connection, "/")
    print(f"the first page after the start: {first:.1f} ms; styles and scripts of every page: {dress} bytes")
    print(f"{'page':<28}{'p50 ms':>8}{'p99 ms':>8}{'bytes':>9}{'with all':>9}")
    worst = 0
    for path in PAGES:
        taken = [estop.page(connection, path) for _ in range(rounds)]
        times = sorted(ms for ms, _ in taken)
        p99 = times[min(len(times) - 1, len(times) * 99 // 100)]
        weight = max(size for _, size in taken)
        worst = max(worst, weight + dress)
        print(f"{path:<28}{statistics.median(times):>8.1f}{p99:>8.1f}{weight:>9}{weight + dress:>9}")
    print(f"heaviest page: {worst} bytes (aim: 200,000); aim for the time: 100 ms")


def burst(estop, agents, seconds=5):
    """What one follower hears while eight connections ask as fast as they can."""
    connection = http.client.HTTPConnection(estop.admin, timeout=WITHIN_S)
    connection.request("GET", "/live", headers={"authorization": f"Bearer {TOKEN}"})
    stream = connection.getresponse()
    over, asked = threading.Event(), [0] * 8

    def press(lane):
        line = http.client.HTTPConnection(estop.data, timeout=WITHIN_S)
        while not over.is_set():
            estop.ask(line, f"agent-{(asked[lane] * 8 + lane) % agents:04}", f"burst {lane} {asked[lane]}")
            asked[lane] += 1

    threads = [threading.Thread(target=press, args=(lane,)) for lane in range(8)]
    for thread in threads:
        thread.start()
    heard, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        heard += stream.readline().startswith(b"event:")
    over.set()
    for thread in threads:
        thread.join()
    print(f"a burst of {sum(asked) / seconds:.0f} requests a second: a page is told {heard / seconds:.1f} times a second (aim: at most 2)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--agents", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--profile", default="release", choices=["release", "debug"])
    parser.add_argument("--binaries", type=pathlib.Path, help="use what is built there; otherwise it is built")
    options = parser.parse_args()
    binaries = options.binaries
    if binaries is None:
        build = ["cargo", "build", "--locked", "--package", "estop", "--package", "estop-fake-model"]
        subprocess.run(build + (["--release"] if options.profile == "release" else []), cwd=ROOT, check=True)
        binaries = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / options.profile
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-panel-"))
    estop = Estop(binaries.resolve(), folder)
    try:
        work(estop, options.agents)
        estop.process.terminate()
        estop.process.wait(WITHIN_S)
        estop.open()
        work(estop, options.agents // 2)
        print(f"{options.agents} agents, half of them have asked since the start")
        pages(estop, options.rounds)
        burst(estop, options.agents)
    finally:
        estop.close()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
