#!/usr/bin/env python3
"""A restart under load refuses nobody (OB-4): the service manager's part is played here, which holds the data port's socket.

Clients ask without a pause while estop is ended and started again and again, three with a connection for each request, one with
connections that stay open. Whoever was answered before goes on, whoever comes between waits, and every answer is a whole one.

Usage: tests/restart/run.py [--binaries FOLDER] [--restarts N]   (needs `cargo build -p estop -p estop-fake-model`)
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import journal_is_whole  # noqa: E402

PATIENCE_S = 60
# The first of the sockets that are passed on.
FIRST = 3
# Asks itself for its number: the one that must stand in LISTEN_PID is known only to the process.
AS_MANAGER = 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"'
CONFIG = """
listen: {{data: "{data}", admin: 127.0.0.1:0}}
data_dir: data
providers:
  openai: {{base_url: "{model}"}}
"""
RULES = [{"reply": {"text": "A slow answer, word by word, that takes its time.", "delay": {"chunk_ms": 40}}}]


class Client(threading.Thread):
    """Asks one request after the other."""

    def __init__(self, port, name, keeps):
        super().__init__(daemon=True)
        self.port, self.agent, self.keeps = port, name, keeps
        self.over = threading.Event()
        self.answers = self.again = 0
        self.failed = []

    def run(self):
        connection = None
        number = 0
        while not self.over.is_set():
            number += 1
            fresh = connection is None
            if fresh:
                connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
            try:
                status, text = ask(connection, self.agent, f"Question {number} of {self.agent}: {'why ' * (number % 7)}")
                if status != 200 or not text.rstrip().endswith("data: [DONE]"):
                    self.failed.append(f"{status}: {text[-300:]}")
                self.answers += 1
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError) as error:
                # A connection that stood idle may be closed at any time, in every HTTP: its client takes another.
                if fresh:
                    self.failed.append(repr(error))
                self.again += 1
                connection = None
                continue
            except OSError as error:
                self.failed.append(repr(error))
                connection = None
                continue
            if not self.keeps:
                connection.close()
                connection = None


def ask(connection, agent, text):
    body = {"model": "gpt-4o-mini", "stream": True, "messages": [{"role": "user", "content": text}]}
    connection.request("POST", f"/agents/{agent}/openai/v1/chat/completions", json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--restarts", type=int, default=6)
    args = parser.parse_args()
    binaries = args.binaries.resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-restart-"))
    model = None
    try:
        (folder / "rules.json").write_text(json.dumps(RULES))
        with (folder / "model.log").open("w") as log:
            line = [binaries / "estop-fake-model", "--listen", "127.0.0.1:0", "--script", folder / "rules.json"]
            model = subprocess.Popen(line, stdout=log, stderr=log)
        play(binaries, folder, said(folder / "model.log", r"(http://\S+)", model), args.restarts)
        a_socket_elsewhere_is_refused(binaries, folder)
    finally:
        if model:
            model.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print("restart: fine")


def play(binaries, folder, model_url, restarts):
    held = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = held.getsockname()[1]
    (folder / "estop.yaml").write_text(CONFIG.format(data=f"127.0.0.1:{port}", model=model_url))
    clients = [Client(port, f"agent-{number}", keeps=number == 0) for number in range(4)]
    estop = start(binaries, folder, held)
    try:
        for client in clients:
            client.start()
        for _ in range(restarts):
            before = [client.answers for client in clients]
            wait(lambda: all(client.answers > then + 2 for client, then in zip(clients, before)), "all clients are answered")
            estop.send_signal(signal.SIGTERM)
            if estop.wait(PATIENCE_S) != 0:
                sys.exit(f"restart: it ended with {estop.returncode}")
            estop = start(binaries, folder, held)
        before = [client.answers for client in clients]
        wait(lambda: all(client.answers > then for client, then in zip(clients, before)), "all clients go on")
        for client in clients:
            client.over.set()
        for client in clients:
            client.join(PATIENCE_S)
    finally:
        estop.terminate()
        estop.wait(PATIENCE_S)
    held.close()
    answers, again = sum(client.answers for client in clients), sum(client.again for client in clients)
    failed = [failure for client in clients for failure in client.failed]
    print(f"{answers} answers over {restarts} restarts, {len(failed)} failed, {again} asked again on a new connection")
    if failed:
        sys.exit(f"restart: {failed[:3]}")
    # Once for each restart at most: a connection that stands idle when estop ends.
    if again > restarts:
        sys.exit("restart: more connections were cut than were open")
    if not journal_is_whole(binaries / "estop", folder):
        sys.exit("restart: the journal does not hold together")


def a_socket_elsewhere_is_refused(binaries, folder):
    """What may connect is decided by the configured address: another one is not listened on."""
    with socket.create_server(("127.0.0.1", 0)) as held:
        os.dup2(held.fileno(), FIRST)
        line = ["sh", "-c", AS_MANAGER, str(binaries / "estop"), "serve", "--config", "estop.yaml"]
        done = subprocess.run(line, cwd=folder, pass_fds=[FIRST], capture_output=True, text=True, timeout=PATIENCE_S)
    if done.returncode == 0 or "ListenStream=" not in done.stderr:
        sys.exit(f"restart: a socket on another port was taken: {done.stderr[-500:]}")


def start(binaries, folder, held):
    """Starts estop with the socket, as a service manager does. Ready or not, connections may come."""
    if held.fileno() != FIRST:
        os.dup2(held.fileno(), FIRST)
    with (folder / "estop.log").open("a") as log:
        line = ["sh", "-c", AS_MANAGER, str(binaries / "estop"), "serve", "--config", "estop.yaml"]
        return subprocess.Popen(line, cwd=folder, stdout=log, stderr=log, pass_fds=[FIRST])


def said(log, pattern, process):
    """What a program says about itself, once it does."""
    found = []

    def look():
        if process.poll() is not None:
            sys.exit(f"restart: it ended: {log.read_text()[-500:]}")
        found[:] = re.findall(pattern, log.read_text())
        return found

    wait(look, pattern)
    return found[0]


def wait(is_so, what):
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"restart: {what}: never")
        time.sleep(0.05)


main()
