#!/usr/bin/env python3
"""The drill: presses every trigger of the red button on a running estop, and prints how long each took.

Usage: tests/triggers/run.py [--binaries FOLDER] [--rounds N] [--gpio]   (needs a built estop and estop-fake-model)

For each trigger a real `estop serve` with traffic behind it. The button must be pressed by the right source, an open
stream must end, the next request must be refused, and after a restart and a clear the same trigger must work again.
The USB button is played by umockdev (Debian: apt install umockdev) and skipped with a message where that is missing.
GPIO lines and once more the USB button are played by a kernel (see gpio.py): on this machine's where root may load gpio-sim, else in
QEMU once that is prepared; --gpio prepares it.

`gate` is what estop measured: from the moment its thread woke until nothing new could start. `refused` is what a client
saw: from the press until the first request that was refused; a request takes some milliseconds itself.
"""

import argparse
import os
import pathlib
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

import gpio
from drill import HERE, ROOT, WITHIN_S, Estop, Stream, Wrong, drill, gate_us, model_started

HEARTBEAT_S = 1.5
# More than this many calls of an agent in a minute are a runaway.
WATCHDOG_CALLS = 100


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


def remove_file(estop):
    (estop.folder / "data" / "KILL").unlink()


def by_silence(estop):
    """The moment at which the time of the last heartbeat is up."""
    status, answer = estop.emergency("heartbeat")
    if status != 204:
        raise Wrong(f"heartbeat: {status} {answer}")
    return time.monotonic() + HEARTBEAT_S


def by_latch(estop):
    """Somebody else puts a latch there that says SHUTDOWN: that of a copy which `estop kill` found without an estop."""
    copy = estop.folder / "copy"
    copy.mkdir()
    shutil.copy(estop.folder / "data" / "estop.latch", copy)
    command_kill(estop, copy)
    pressed = time.monotonic()
    (copy / "estop.latch").rename(estop.folder / "data" / "estop.latch")
    shutil.rmtree(copy)
    return pressed


def by_command(estop):
    """`estop kill` while the owner's socket takes everything and answers nothing."""
    # estop looks after its socket every second, and stops everything if it finds it gone five times in a row.
    time.sleep(1.2)
    real = estop.folder / "data" / "estop.sock"
    estop.socket = estop.folder / "real.sock"
    real.rename(estop.socket)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as deaf:
        deaf.bind(str(real))
        deaf.listen()
        pressed = time.monotonic()
        command_kill(estop, estop.folder / "data")
        real.unlink()
    estop.socket.rename(real)
    estop.socket = real
    return pressed


def command_kill(estop, folder):
    line = [str(estop.binaries / "estop"), "kill", "--note", "a drill", "--data-dir", str(folder)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WITHIN_S)
    if done.returncode != 0:
        raise Wrong(f"estop kill: {done.returncode} {done.stdout}{done.stderr}")


def by_calls(estop):
    """The agent's next call is one too many."""
    connection = estop.connect()
    for number in range(WATCHDOG_CALLS):
        answer = estop.ask("asker", f"Call {number}: what is {number * 7919} divided by 13?", connection)
        answer.read()
        if answer.status != 200:
            raise Wrong(f"call {number} was refused: {answer.status}")
    return time.monotonic()


def watchdog(binaries, folder, model, rounds):
    """It presses once an episode: each press is one of an estop of its own."""
    times = []
    for number in range(rounds):
        estop = Estop(binaries, folder / f"watchdog-{number}", model, watchdog="system")
        try:
            times += drill(estop, "watchdog", by_calls, 1)
        finally:
            estop.end()
    return times


class TooEarly(Wrong):
    """The button was pressed before anything could be begun."""


def usb_button(binaries, folder, model, how):
    """A press of a button that umockdev plays; later if the machine is too slow for it."""
    folder.mkdir()
    for later_s in (0, 6):
        try:
            return usb_press(binaries, folder / f"later-{later_s}", model, how, later_s)
        except TooEarly as early:
            print(f"{early}; once more, with a later press", file=sys.stderr)
    return usb_press(binaries, folder / "last", model, how, 25)


def press_later(events, later_s):
    """What the device plays: KEY_STOP comes three seconds after it was opened, or later."""
    def moved(line):
        letter, seconds, rest = line.split(" ", 2)
        seconds = float(seconds)
        return f"{letter} {seconds + later_s if seconds >= 3 else seconds:.6f} {rest}"

    events.write_text("".join(moved(line) for line in (HERE / "press.ev").read_text().splitlines(keepends=True)))


def usb_press(binaries, folder, model, how, later_s):
    """estop reads it as it reads a real one."""
    folder.mkdir()
    events = folder / "press.ev"
    press_later(events, later_s)
    around = ["umockdev-run", "--device", str(HERE / "button.umockdev"), "--ioctl", f"/dev/input/event0={HERE / 'button.ioctl'}",
              f"--evemu-events=/dev/input/event0={events}", "--"]
    estop = Estop(binaries, folder, model, f"triggers: {{button: {{{how}, key: KEY_STOP}}}}", around=around)
    try:
        stream = Stream(estop)
        answer = estop.ask("asker", "Before the press")
        answer.read()
        if answer.status != 200 or "EMERGENCY STOP" in estop.errors():
            raise TooEarly(f"pressed too early: {estop.errors()}")
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
    # What was skipped says why, at length.
    widths = [max(len(row[column]) for row in table if row[2]) for column in range(len(head))]
    for number, row in enumerate(table):
        print("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        if number == 0:
            print("|" + "|".join("-" * (width + 2) for width in widths) + "|")


def has_failed(rows):
    return any(isinstance(times, str) and times.startswith("FAILED") for _, times in rows)


def attempt(name, press):
    """A row: its times, or what is wrong."""
    try:
        return name, press()
    except Wrong as wrong:
        return name, f"FAILED: {wrong}"


def one_estop(binaries, folder, model, source, press, rounds, release=lambda estop: None, more=""):
    estop = Estop(binaries, folder, model, more)
    try:
        return drill(estop, source, press, rounds, release)
    finally:
        estop.end()


def all_rows(binaries, scratch, model, rounds):
    heartbeat = {"more": f"triggers: {{heartbeat: {{within_s: {HEARTBEAT_S}}}}}"}
    drills = [
        ("API", "api", by_api, {}),
        ("SIGUSR1", "signal", by_signal, {}),
        ("trigger file", "file", by_file, {"release": remove_file}),
        ("latch written by somebody else", "latch", by_latch, {}),
        ("estop kill, socket deaf", "latch", by_command, {}),
        ("heartbeat missed", "heartbeat", by_silence, heartbeat),
    ]
    for number, (name, source, press, more) in enumerate(drills):
        yield attempt(name, lambda: one_estop(binaries, scratch / str(number), model, source, press, rounds, **more))
    yield attempt("watchdog, call 101", lambda: watchdog(binaries, scratch, model, rounds))
    for kind, how in (("path", "device: /dev/input/event0"), ("name", 'name: "estop test button"')):
        name = f"USB button by {kind} (umockdev)"
        if shutil.which("umockdev-run"):
            yield attempt(name, lambda: usb_button(binaries, scratch / f"usb-{kind}", model, how))
        else:
            yield name, "skipped: umockdev is not installed (apt install umockdev)"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--gpio", action="store_true", help="fetch what the GPIO drill needs (up to 225 MB, kept)")
    args = parser.parse_args()
    binaries = args.binaries.resolve()
    with tempfile.TemporaryDirectory(prefix="estop-triggers-") as scratch:
        model, url = model_started(binaries, HERE / "slow.json")
        try:
            rows = list(all_rows(binaries, pathlib.Path(scratch), url, args.rounds))
        finally:
            model.terminate()
            model.wait()
    rows += gpio.rows(binaries, args.rounds, gpio.KERNEL, may_fetch=args.gpio)
    show(rows)
    sys.exit(1 if has_failed(rows) else 0)


if __name__ == "__main__":
    main()
