#!/usr/bin/env python3
"""The drill: presses every trigger of the red button on a running estop, and prints how long each took.

Usage: tests/triggers/run.py [--binaries FOLDER] [--rounds N]   (needs a built estop and estop-fake-model)

For each trigger a real `estop serve` with traffic behind it. The button must be pressed by the right source, an open
stream must end, the next request must be refused, and after a restart and a clear the same trigger must work again.
The USB button is played by umockdev (Debian: apt install umockdev) and skipped with a message where that is missing.

`gate` is what estop measured: from the moment its thread woke until nothing new could start. `refused` is what a client
saw: from the press until the first request that was refused; a request takes some milliseconds itself.
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
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
HEARTBEAT_S = 1.5


class Estop:
    """A running estop."""

    def __init__(self, binaries, folder, model, more="", watchdog="off", around=()):
        self.folder = folder
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
        connection = OwnerConnection(self.folder / "data" / "estop.sock", WITHIN_S)
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


class Wrong(Exception):
    """Something is not as it must be."""


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


def drill(estop, source, press, rounds):
    """Presses `rounds` times; times of gate and refusal, one for each."""
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
        times.append((estop.took if source == "api" else gate_us(estop, told), refused))
        (estop.folder / "data" / "KILL").unlink(missing_ok=True)
        estop.unlock()
    return times


def by_api(estop):
    pressed = time.monotonic()
    status, answer = estop.emergency("kill", {"reason": "manual", "note": "a drill"})
    if status != 200:
        raise Wrong(f"kill: {status} {answer}")
    estop.took = answer["took"]["gate_us"]
    return pressed


def by_signal(estop):
    pressed = time.monotonic()
    os.kill(estop.pid, signal.SIGUSR1)
    return pressed


def by_file(estop):
    pressed = time.monotonic()
    (estop.folder / "data" / "KILL").write_text("a drill\n")
    return pressed


def by_silence(estop):
    """The moment at which the time of the last heartbeat is up."""
    status, answer = estop.emergency("heartbeat")
    if status != 204:
        raise Wrong(f"heartbeat: {status} {answer}")
    return time.monotonic() + HEARTBEAT_S


def usb_button(binaries, folder, model, how):
    """A press of a button that umockdev plays; estop reads it as it reads a real one."""
    folder.mkdir()
    shutil.copy(HERE / "button.umockdev", folder)
    # The first press comes two seconds after the device was opened: time to begin a stream.
    events = HERE / "press.ev"
    around = ["umockdev-run", "--device", str(HERE / "button.umockdev"), "--ioctl", f"/dev/input/event0={HERE / 'button.ioctl'}",
              f"--evemu-events=/dev/input/event0={events}", "--"]
    estop = Estop(binaries, folder, model, f"triggers: {{button: {{{how}, key: KEY_STOP}}}}", around=around)
    try:
        stream = Stream(estop)
        answer = estop.ask("asker", "Before the press")
        answer.read()
        if answer.status != 200 or "EMERGENCY STOP" in estop.errors():
            raise Wrong(f"pressed too early: {estop.errors()}")
        gate = gate_us(estop, 0)
        estop.wait_until_refused()
        stream.join(WITHIN_S)
        status = estop.emergency("status")[1]
        if status["source"] != "button" or estop.errors().count("EMERGENCY STOP") != 1:
            raise Wrong(f"repeats and releases must not press: {status} {estop.errors()}")
        return [(gate, None)]
    finally:
        estop.end()


def show(rows):
    head = ("trigger", "presses", "gate µs, median", "gate µs, worst", "refused ms, median", "refused ms, worst")
    table = [head]
    for name, times in rows:
        if isinstance(times, str):
            table.append((name, times, "", "", "", ""))
            continue
        gates = [gate for gate, _ in times if gate is not None]
        refusals = [refused * 1000 for _, refused in times if refused is not None]
        shown = lambda values, form: [form.format(f(values)) if values else "–" for f in (statistics.median, max)]
        table.append((name, str(len(times)), *shown(gates, "{:.0f}"), *shown(refusals, "{:.1f}")))
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    for number, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def model_started(binaries, script):
    process = subprocess.Popen(
        [str(binaries / "estop-fake-model"), "--script", str(script)], stdout=subprocess.PIPE, text=True
    )
    return process, "http://" + process.stdout.readline().strip().rsplit("//", 1)[-1].split()[0]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    binaries, rows, failed = args.binaries.resolve(), [], False
    with tempfile.TemporaryDirectory(prefix="estop-triggers-") as scratch:
        scratch = pathlib.Path(scratch)
        model, url = model_started(binaries, HERE / "slow.json")
        drills = [
            ("API", "api", by_api, ""),
            ("SIGUSR1", "signal", by_signal, ""),
            ("trigger file", "file", by_file, ""),
            ("heartbeat missed", "heartbeat", by_silence, f"triggers: {{heartbeat: {{within_s: {HEARTBEAT_S}}}}}"),
        ]
        try:
            for name, source, press, more in drills:
                estop = Estop(binaries, scratch / source, url, more)
                try:
                    rows.append((name, drill(estop, source, press, args.rounds)))
                    estop.end()
                except Wrong as wrong:
                    failed = True
                    rows.append((name, f"FAILED: {wrong}"))
            for name, how in (("path", "device: /dev/input/event0"), ("name", 'name: "estop test button"')):
                name = f"USB button by {name} (umockdev)"
                if not shutil.which("umockdev-run"):
                    rows.append((name, "skipped: umockdev is not installed (apt install umockdev)"))
                    continue
                try:
                    rows.append((name, usb_button(binaries, scratch / name.replace(" ", "-"), url, how)))
                except Wrong as wrong:
                    failed = True
                    rows.append((name, f"FAILED: {wrong}"))
        finally:
            model.terminate()
            model.wait()
    show(rows)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
