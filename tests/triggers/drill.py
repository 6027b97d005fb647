"""What every drill of the red button does: a running estop with traffic behind it, a press, and what a client saw of it."""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import OwnerConnection  # noqa: E402

CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
providers: {{openai: {{base_url: "{model}"}}}}
watchdog: {{scope: "{watchdog}"}}
{more}
"""
WITHIN_S = 30


class Wrong(Exception):
    """Something is not as it must be."""


class Estop:
    """A running estop."""

    def __init__(self, binaries, folder, model, more="", watchdog="off", around=()):
        self.folder, self.binaries = folder, binaries
        self.socket = folder / "data" / "estop.sock"
        # What the answer to a kill said of the gate, where there is one.
        self.took = None
        folder.mkdir(exist_ok=True)
        config = CONFIG.format(model=model, more=more, watchdog=watchdog)
        (folder / "estop.yaml").write_text(config)
        line = [*around, str(binaries / "estop"), "serve", "--config", "estop.yaml", "--data-dir", "data"]
        with open(folder / "errors.txt", "wb") as errors:
            self.process = subprocess.Popen(
                line, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        first = self.process.stdout.readline()
        if " on " not in first:
            sys.exit(f"estop does not start: {first}{self.errors()}")
        self.address = first.split("//")[1].strip()
        self.pid = self.find_pid()

    def find_pid(self):
        """Of estop itself, not of what runs around it."""
        for line in self.process.stdout:
            if found := re.search(r"kill -USR1 (\d+)", line):
                return int(found[1])
        sys.exit("estop does not say its process id")

    def errors(self):
        return (self.folder / "errors.txt").read_text(errors="replace")

    def emergency(self, what, body=None):
        """Status and answer of /api/emergency/…"""
        connection = OwnerConnection(self.socket, WITHIN_S)
        method = "GET" if what == "status" else "POST"
        headers = {"content-type": "application/json"}
        connection.request(method, f"/api/emergency/{what}", json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        return answer.status, json.loads(text) if text else None

    def connect(self):
        return http.client.HTTPConnection(self.address, timeout=WITHIN_S)

    def ask(self, agent, words, connection=None, stream=False):
        body = {"model": "gpt-4o-mini", "stream": stream, "messages": [{"role": "user", "content": words}]}
        connection = connection or self.connect()
        path = f"/agents/{agent}/openai/v1/chat/completions"
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        return connection.getresponse()

    def wait_until_refused(self, agent="asker"):
        """Asks one request after the other; the moment at which the first refusal was there."""
        connection, begun, number = self.connect(), time.monotonic(), 0
        while time.monotonic() < begun + WITHIN_S:
            try:
                answer = self.ask(agent, f"Question {number} at {begun}", connection)
                answer.read()
            except (OSError, http.client.HTTPException):
                # Cut in the middle: the next one tells.
                connection = self.connect()
                continue
            if answer.status == 400:
                return time.monotonic()
            number += 1
        raise Wrong("nothing was refused")

    def unlock(self):
        for step in ("restart", "clear"):
            status, answer = self.emergency(step)
            if status != 200:
                raise Wrong(f"{step}: {status} {answer}")

    def end(self):
        os.kill(self.pid, signal.SIGTERM)
        try:
            self.process.wait(WITHIN_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise Wrong("it does not end") from None


class Stream(threading.Thread):
    """An answer that does not end by itself; `ended` is when it ended."""

    def __init__(self, estop):
        super().__init__(daemon=True)
        self.answer = estop.ask("streamer", "Count very slowly", stream=True)
        self.first = self.answer.read1(1)
        self.ended = None
        self.start()

    def run(self):
        try:
            while self.answer.read1(4096):
                pass
        except (OSError, http.client.HTTPException):
            pass
        self.ended = time.monotonic()


def gate(estop, source, since):
    """The gate's time in µs. The watchdog has none: the call that is one too many shuts it and is itself refused."""
    if source == "watchdog":
        return None
    return estop.took if estop.took is not None else gate_us(estop, since)


def gate_us(estop, since):
    """The gate's time of the press that estop told of after this much of its standard error."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        said = estop.errors()[since:]
        if found := re.search(r"EMERGENCY STOP by .*Gate shut after (\d+) µs", said):
            if "the emergency stop is on the disk" in said:
                return int(found[1])
        time.sleep(0.01)
    raise Wrong(f"no press was told of: {estop.errors()[-500:]}")


def drill(estop, source, press, rounds, release=lambda estop: None):
    """Presses `rounds` times; times of gate and refusal, one for each. `release` lets go of the button."""
    times = []
    for _ in range(rounds):
        stream = Stream(estop)
        if not stream.first:
            raise Wrong("no stream is open")
        told = len(estop.errors())
        pressed = press(estop)
        refused = estop.wait_until_refused() - pressed
        status = estop.emergency("status")[1]
        if (status["state"], status["source"]) != ("shutdown", source):
            raise Wrong(f"pressed by {status['source']}, state {status['state']}, and not by {source}")
        stream.join(WITHIN_S)
        if stream.ended is None:
            raise Wrong("the open stream did not end")
        times.append((gate(estop, source, told), refused))
        release(estop)
        estop.unlock()
    return times


def model_started(binaries, script):
    process = subprocess.Popen(
        [str(binaries / "estop-fake-model"), "--script", str(script)], stdout=subprocess.PIPE, text=True
    )
    return process, "http://" + process.stdout.readline().strip().rsplit("//", 1)[-1].split()[0]
