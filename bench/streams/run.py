#!/usr/bin/env python3
"""Ten thousand open streams through estop: its memory, and how long one press of the button takes to end them all.

Usage: bench/streams/run.py [--streams N]   (builds estop, the fake model and the client in release)

Gateway, model and client are processes of their own. Each stream takes two descriptors in estop, so the limit of open
files is raised as far as this user may. Printed: resident memory of estop with all streams open, time from the kill
(SIGUSR1) to the end of the last client stream, and to the last upstream connection closed, as the model counts it.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
limits: {{connections: {connections}}}
providers:
  openai: {{base_url: "{model}"}}
watchdog: {{scope: off}}
"""


def raise_limit(wanted):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(wanted, hard), max(wanted, hard)))
    except (ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        if hard < wanted:
            sys.exit(f"{wanted} open files are needed, {hard} are allowed: use fewer --streams")


def start(command, folder):
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True)


def address_of(process):
    return process.stdout.readline().split("//")[1].strip()


def memory_mb(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def connections(model):
    with urllib.request.urlopen(f"http://{model}/_seen") as answer:
        return json.load(answer)["connections"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", type=int, default=10_000)
    streams = parser.parse_args().streams
    packages = ["--package", "estop", "--package", "estop-fake-model", "--package", "estop-bench"]
    subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT, check=True)
    binaries = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"
    raise_limit(2 * streams + 150)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-streams-"))
    script = [{"reply": {"endless": True, "text": "word ", "delay": {"chunk_ms": 5000}}}]
    (folder / "script.json").write_text(json.dumps(script))
    running = []
    try:
        fake = [str(binaries / "estop-fake-model"), "--listen", "127.0.0.1:0", "--script", "script.json", "--requests-kept", "10"]
        running.append(start(fake, folder))
        model = address_of(running[0])
        config = CONFIG.format(model=f"http://{model}", connections=streams + 100)
        (folder / "estop.yaml").write_text(config)
        running.append(start([str(binaries / "estop"), "serve", "--config", "estop.yaml", "--data-dir", "data"], folder))
        estop = running[1]
        address = address_of(estop)
        before = memory_mb(estop.pid)
        client = start([str(binaries / "open_streams"), address, str(streams)], folder)
        running.append(client)
        word, opened = client.stdout.readline().split()
        if int(opened) != streams:
            sys.exit(f"only {opened} streams could be opened")
        time.sleep(1)
        print(f"streams open: {opened}; estop's memory: {memory_mb(estop.pid):.0f} MB ({before:.0f} MB before)")
        ended = []
        listener = threading.Thread(target=lambda: (client.stdout.readline(), ended.append(time.monotonic())))
        listener.start()
        pressed = time.monotonic()
        estop.send_signal(signal.SIGUSR1)
        while connections(model)["open"] > 2:
            time.sleep(0.005)
        upstream_ms = 1000 * (time.monotonic() - pressed)
        listener.join()
        clients_ms = 1000 * (ended[0] - pressed)
        print(f"button pressed: last client stream ended after {clients_ms:.0f} ms, last upstream connection within {upstream_ms:.0f} ms")
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
