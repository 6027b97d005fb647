#!/usr/bin/env python3
"""`estop demo` as somebody sees it who has just typed it: how long until the dashboard shows the stop, and what Ctrl-C leaves.

Usage: tests/demo/run.py [--binaries DIR]   (needs a built estop)

Printed: seconds from the command to the line with the dashboard's address, to the first page, and to the page that shows that
the looping agent was stopped. None of them fails the test; not showing it within WITHIN_S does.
"""

import argparse
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# Ten times what it takes on a slow machine.
WITHIN_S = 180
# estop itself gets 20 s to end.
GONE_WITHIN_S = 40


class Demo:
    """A running demo in a folder for everything it keeps."""

    def __init__(self, estop, folder):
        self.folder, self.begun = folder, time.monotonic()
        line = [str(estop), "demo", "--no-browser", "--port", "0", "--admin-port", "0"]
        env = {**os.environ, "TMPDIR": str(folder)}
        self.said = folder.parent / f"{folder.name}.log"
        # A group of its own, as a shell gives it: what Ctrl-C sends goes to all of it.
        self.process = subprocess.Popen(line, env=env, stdout=self.said.open("wb"), stderr=subprocess.STDOUT, start_new_session=True)
        self.ever = set()

    def door(self):
        """The dashboard's address and its token."""
        found = re.search(r"Dashboard: (http://[^/]+)/login#token=(\S+)", self.said.read_text())
        return found and found.groups()

    def page(self, path="/"):
        address, token = self.door()
        request = urllib.request.Request(address + path, headers={"authorization": f"Bearer {token}"})
        try:
            with urllib.request.urlopen(request, timeout=10) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return ""

    def seconds(self):
        return time.monotonic() - self.begun

    def family(self):
        """The demo and everything it has started that still runs."""
        parents = {}
        for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = entry.read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if fields[0] != "Z":
                parents[int(entry.parent.name)] = int(fields[1])
        mine = {self.process.pid} | self.ever
        for _ in parents:
            more = {pid for pid, parent in parents.items() if parent in mine} - mine
            if not more:
                break
            mine |= more
        alive = mine & parents.keys()
        self.ever |= alive
        return alive

    def is_gone(self, how):
        code = self.process.wait(GONE_WITHIN_S)
        # Whoever was orphaned is looked for by its number: it has another parent.
        until(lambda: not self.family() - {self.process.pid}, f"{how}: no process is left", GONE_WITHIN_S)
        left = [path.name for path in self.folder.iterdir()]
        assert left == [], f"{how}: {left} is left"
        assert code == 0, f"{how}: exit code {code}\n{self.said.read_text()}"
        print(f"{how}: everything is gone")


def until(found, what, within_s=WITHIN_S):
    end = time.monotonic() + within_s
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {within_s} s: {what}")
        time.sleep(0.05)


def row(page, agent):
    found = re.search(rf'<tr id="agent-{agent}">.*?</tr>', page, re.S)
    return found.group(0) if found else ""


def the_stop_is_seen_and_ctrl_c_leaves_nothing(demo):
    until(demo.door, "it says where the dashboard is")
    print(f"the dashboard's address after {demo.seconds():.1f} s")
    until(demo.page, "the first page")
    print(f"the first page after {demo.seconds():.1f} s")
    stopped = until(lambda: (page := demo.page()) and "Deactivated by Kill Switch" in row(page, "looper") and page, "the looper is stopped")
    print(f"the stop in the dashboard after {demo.seconds():.1f} s")
    for healthy in ("coder", "poller"):
        assert "Active" in row(stopped, healthy), f"{healthy} works: {row(stopped, healthy)}"
    # The stop is seen at once, its incident when it is stored.
    incident = until(lambda: re.search(r'href="(/incidents/[^"]+)">', demo.page("/incidents")), "the incident")
    assert "similar prompts" in demo.page(incident.group(1)), "the evidence is there"
    assert len(demo.family()) >= 2, "the demo has an estop of its own"
    os.killpg(demo.process.pid, signal.SIGINT)
    demo.is_gone("Ctrl-C after the stop")


def the_healthy_stay_healthy(demo):
    """Twice as long as the looper needs, and longer than twenty requests of the poller."""
    until(demo.door, "it says where the dashboard is")
    until(lambda: all(int((re.search(r"Last hour: (\d+) asked", row(demo.page(), agent)) or [0, 0])[1]) > 22 for agent in ("coder", "poller")), "they worked")
    for healthy in ("coder", "poller"):
        assert ">Active<" in row(demo.page(), healthy), f"{healthy} works: {row(demo.page(), healthy)}"
    print(f"coder and poller still work after {demo.seconds():.1f} s")
    demo.family()
    os.killpg(demo.process.pid, signal.SIGINT)
    demo.is_gone("Ctrl-C later")


def ctrl_c_while_it_starts_leaves_nothing(demo):
    until(lambda: len(demo.family()) >= 2, "it has started its estop")
    os.killpg(demo.process.pid, signal.SIGINT)
    demo.is_gone("Ctrl-C while it starts")


def a_kill_signal_leaves_nothing(demo):
    until(demo.door, "it says where the dashboard is")
    demo.family()
    demo.process.send_signal(signal.SIGTERM)
    demo.is_gone("SIGTERM")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="estop-demo-test-") as name:
        for scenario in (the_stop_is_seen_and_ctrl_c_leaves_nothing, the_healthy_stay_healthy, ctrl_c_while_it_starts_leaves_nothing, a_kill_signal_leaves_nothing):
            folder = pathlib.Path(name) / scenario.__name__
            folder.mkdir()
            demo = Demo((args.binaries / "estop").resolve(), folder)
            try:
                scenario(demo)
            except AssertionError as error:
                failed += 1
                print(f"{scenario.__name__}: FAILED: {error}")
                for pid in demo.family():
                    os.kill(pid, signal.SIGKILL)
                demo.process.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
