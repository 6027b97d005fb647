#!/usr/bin/env python3
"""Ten thousand open streams through estop: its memory, and how long one press of the button takes to end them all.

Usage: bench/streams/run.py [--streams N,N,…] [--http2] [--saturate] [--block-database] [--binaries FOLDER]
       (builds estop, the fake model and the client in release, unless --binaries has them; --saturate needs wrk)

Gateway, model and client are processes of their own. Each stream takes two descriptors in estop (with --http2 one, but two
in the model), so the limit of open files is raised as far as this user may. Printed: resident memory of estop with all
streams open, time from the kill to the end of the last client stream, and to the last upstream connection closed, as the
model counts it; and what estop's own answer says. The button is pressed over the admin port. --saturate keeps both data threads busy with short
requests before and during the kill, --block-database holds the database's write lock all the while. --http2: the client's
streams come by HTTP/2, a hundred on each connection; estop's calls to the model are HTTP/1.1, one connection each.
"""

import argparse
import json
import os
import pathlib
import resource
import shutil
import signal
import sqlite3
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


LOAD = """
wrk.method = "POST"
wrk.headers["content-type"] = "application/json"
local count = 0
function request()
  count = count + 1
  local body = '{"model":"quick","messages":[{"role":"user","content":"Question ' .. count .. ' of many."}]}'
  return wrk.format(nil, "/agents/load-" .. (count % 16) .. "/openai/v1/chat/completions", nil, body)
end
"""


def saturate(address, folder):
    """Keeps the data threads busy until it is ended."""
    (folder / "load.lua").write_text(LOAD)
    return start(["wrk", "-t1", "-c32", "-d120s", "-s", "load.lua", f"http://{address}"], folder)


def press(admin, token):
    request = urllib.request.Request(f"http://{admin}/api/emergency/kill", data=b"{}", method="POST")
    request.add_header("authorization", f"Bearer {token}")
    request.add_header("content-type", "application/json")
    with urllib.request.urlopen(request, timeout=30) as answer:
        return json.load(answer)


def serve(binaries, folder, model, streams):
    """Starts estop; gives back the process and where it listens: data, admin and the admin's token."""
    config = CONFIG.format(model=f"http://{model}", connections=streams + 200)
    (folder / "estop.yaml").write_text(config)
    estop = start([str(binaries / "estop"), "serve", "--config", "estop.yaml", "--data-dir", "data"], folder)
    data, admin = address_of(estop), None
    while admin is None:
        line = estop.stdout.readline()
        if not line:
            sys.exit("estop did not start")
        if "Admin API" in line:
            admin = line.split("//")[1].split("/")[0]
    return estop, data, admin, (folder / "data" / "admin-token").read_text().strip()


def measure(binaries, streams, options):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-streams-"))
    script = [
        {"match": {"model": "quick"}, "reply": {"text": "Yes."}},
        {"reply": {"endless": True, "text": "word ", "delay": {"chunk_ms": 5000}}},
    ]
    (folder / "script.json").write_text(json.dumps(script))
    running = []
    try:
        fake = [str(binaries / "estop-fake-model"), "--listen", "127.0.0.1:0", "--script", "script.json", "--requests-kept", "10"]
        running.append(start(fake, folder))
        model = address_of(running[0])
        estop, address, admin, token = serve(binaries, folder, model, streams)
        running.append(estop)
        before = memory_mb(estop.pid)
        version = ["http2"] if options.http2 else []
        client = start([str(binaries / "open_streams"), address, str(streams), *version], folder)
        running.append(client)
        word, opened = client.stdout.readline().split()
        if int(opened) != streams:
            sys.exit(f"only {opened} streams could be opened")
        time.sleep(1)
        print(f"streams open{' by HTTP/2' if options.http2 else ''}: {opened}; estop's memory: {memory_mb(estop.pid):.0f} MB ({before:.0f} MB before)")
        if options.block_database:
            database = sqlite3.connect(folder / "data" / "estop.db", isolation_level=None)
            database.execute("BEGIN IMMEDIATE")
        if options.saturate:
            running.append(saturate(address, folder))
            time.sleep(2)
        ended, answers = [], []
        listener = threading.Thread(target=lambda: (client.stdout.readline(), ended.append(time.monotonic())))
        listener.start()
        pressed = time.monotonic()
        presser = threading.Thread(target=lambda: answers.append((press(admin, token), time.monotonic())))
        presser.start()
        while connections(model)["open"] > 2:
            time.sleep(0.005)
        upstream_ms = 1000 * (time.monotonic() - pressed)
        listener.join()
        presser.join()
        clients_ms = 1000 * (ended[0] - pressed)
        answer, answered = answers[0]
        took = answer["took"]
        print(
            f"  button pressed: last client stream ended after {clients_ms:.0f} ms, last upstream connection within "
            f"{upstream_ms:.0f} ms\n  estop says: gate shut in {took['gate_us']} us, {answer['stopped']['model_calls']} calls told "
            f"to end in {took['cut_us']} us, on disk: {took['persisted_us']} us; answered after {1000 * (answered - pressed):.0f} ms"
        )
    finally:
        for process in running:
            process.kill()
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--streams", default="10000")
    parser.add_argument("--saturate", action="store_true")
    parser.add_argument("--block-database", action="store_true")
    parser.add_argument("--http2", action="store_true")
    parser.add_argument("--binaries", type=pathlib.Path, help="a folder with estop, estop-fake-model and open_streams")
    options = parser.parse_args()
    counts = [int(count) for count in options.streams.split(",")]
    binaries = options.binaries.resolve() if options.binaries else built()
    raise_limit(2 * max(counts) + 250)
    for count in counts:
        measure(binaries, count, options)


def built():
    packages = ["--package", "estop", "--package", "estop-fake-model", "--package", "estop-bench"]
    subprocess.run(["cargo", "build", "--release", "--locked", *packages], cwd=ROOT, check=True)
    return pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release"


if __name__ == "__main__":
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
