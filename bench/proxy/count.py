#!/usr/bin/env python3
"""Instructions and system calls that a request costs estop: figures that hold on a busy machine, too.

Usage: bench/proxy/count.py [--connections N] [--seconds S] [--evidence MODE] [--spans SHARE] [--log SHARE] [BINARY]   (needs nginx, wrk, openssl, valgrind and strace)

The same load as run.py, on a binary with its symbols: CARGO_PROFILE_RELEASE_STRIP=none cargo build --release. Instructions are of user code alone, by what a thread
is for; the slow machine that valgrind makes changes batches and wake-ups, so that projector and store cost more here than in
life. System calls are of all threads; futex calls are left out, as tracing itself makes threads wait for each other.
"""

import argparse
import collections
import http.server
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

import run

ROLES = [("data", "estop_gateway::exchange"), ("projector", "persistence::projector"), ("store", "estop_store::sqlite"), ("spans", "estop_daemon::span_export")]


def instructions(folder, pid, connections, seconds):
    """Instructions for a request, by role of the thread."""
    control = lambda *what: subprocess.run(["callgrind_control", *what, str(pid)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    run.wrk("estop", connections, seconds)
    control("-i", "on")
    requests = run.wrk("estop", connections, seconds)["requests"]
    control("-i", "off")
    control("-d")
    time.sleep(2)
    found = collections.Counter()
    for file in folder.glob("callgrind.out.*-*"):
        text = file.read_text()
        total = int(re.search(r"^totals: (\d+)", text, re.M).group(1))
        role = next((role for role, name in ROLES if name in text), "others")
        found[role] += total
    return {role: count / max(requests, 1) for role, count in found.items() if count}


def system_calls(folder, pid, connections, seconds):
    """System calls for a request, by name."""
    out = folder / "strace.out"
    tracer = subprocess.Popen(["strace", "-c", "-f", "-p", str(pid), "-o", str(out)], stderr=subprocess.DEVNULL)
    time.sleep(1)
    requests = run.wrk("estop", connections, seconds)["requests"]
    tracer.send_signal(signal.SIGINT)
    tracer.wait()
    rows = [line.split() for line in out.read_text().splitlines()[2:] if line and not line.startswith("-")]
    counts = {row[-1]: int(row[3]) / requests for row in rows if len(row) >= 5 and row[3].isdigit()}
    return {name: count for name, count in counts.items() if count >= 0.01 and name not in ("futex", "total")}


def measure(binary, config, folder, prefix, count, warm_up):
    run.prepare(folder)
    (folder / "estop.yaml").write_text(config)
    upstream = run.start(["nginx", "-p", str(folder), "-c", str(folder / "upstream.nginx.conf")], folder, "upstream.log")
    command = [*prefix, str(binary), "serve", "--config", "estop.yaml", "--data-dir", "data"]
    estop = run.start(command, folder, "estop.log")
    try:
        time.sleep(warm_up)
        url, path = run.PEERS["estop"]
        run.wait_for(url + path.replace("AGENT", "agent-0") + "/v1/chat/completions")
        return count(estop.pid)
    finally:
        for process in (estop, upstream):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


class Collector(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--connections", type=int, default=64)
    parser.add_argument("--seconds", type=int, default=6)
    parser.add_argument("--evidence", choices=("off", "redacted", "full"), default="redacted", help="which steps are kept (docs/evidence.md)")
    parser.add_argument("--spans", default="off", help="which requests become spans: off, all, or a share such as 1/100 (docs/metrics.md)")
    parser.add_argument("--log", default="off", help="the same for lines of the request log")
    parser.add_argument("binary", nargs="?", type=pathlib.Path, default=run.ROOT / "target" / "release" / "estop")
    arguments = parser.parse_args()
    for tool in ("nginx", "wrk", "openssl", "valgrind", "strace"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: apt-get install --yes nginx-light wrk openssl valgrind strace")
    config = f"{run.CONFIG}policy: {{evidence: {arguments.evidence}}}\n"
    # A collector that takes everything and answers at once.
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    config += f"log: {{requests: {arguments.log}}}\n"
    config += f'opentelemetry: {{endpoint: "http://127.0.0.1:{collector.server_port}", spans: {arguments.spans}}}\n'
    binary, load = arguments.binary.resolve(), (arguments.connections, arguments.seconds)
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", "--separate-threads=yes", "--callgrind-out-file=callgrind.out"]
    folders = [pathlib.Path(tempfile.mkdtemp(prefix="estop-count-")) for _ in range(2)]
    found = measure(binary, config, folders[0], valgrind, lambda pid: instructions(folders[0], pid, *load), 8)
    print("instructions for a request: " + ", ".join(f"{role} {count:,.0f}" for role, count in sorted(found.items())))
    found = measure(binary, config, folders[1], [], lambda pid: system_calls(folders[1], pid, *load), 1)
    print("system calls for a request: " + ", ".join(f"{name} {count:.2f}" for name, count in sorted(found.items())))


if __name__ == "__main__":
    main()
