#!/usr/bin/env python3
"""Kills estop at its writes, and makes its writes fail, one after the other; then looks at what it remembers.

Usage: tests/faults/run.py [--every N] [--binaries FOLDER]   (needs strace and a built estop; `--every 1` tries each write)

A scripted run: two agents, one of which loops until it is stopped; then the red button, pressed, restarted, cleared and pressed again. `strace` strikes at the n-th system call that
writes or syncs, n = 1, 1 + every, ...: SIGKILL, one EIO, and ENOSPC from there on. After each run estop is started
again without faults, and must remember everything it said: each answered request, each stop, how the button stood (KS-3). The journal must verify and
replay, the database be intact. Once nothing can be written any more, nothing may pass.
"""

import argparse
import contextlib
import http.client
import json
import os
import pathlib
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import OwnerConnection  # noqa: E402
WRITES = "pwrite64,write,fdatasync,fsync,ftruncate,unlink,rename"
FAULTS = {
    "killed": (WRITES, "signal=SIGKILL:when={n}"),
    "EIO once": ("pwrite64,write,fdatasync,fsync", "error=EIO:when={n}"),
    "disk full from there on": ("pwrite64,write,fallocate", "error=ENOSPC:when={n}+"),
}
CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
providers: {{openai: {{base_url: "{model}"}}}}
policy: {{kill_switch_enabled: true}}
"""
KILL = {"reason": "security_incident", "note": "a drill"}
# What is done to the button, and how it stands afterwards.
BUTTON = [("kill", KILL, "shutdown"), ("restart", {}, "safe_mode"), ("clear", {}, "running"), ("kill", KILL, "shutdown")]
START_WITHIN_S = 20
ANSWER_WITHIN_S = 20


class Estop:
    """A running estop, under strace if a fault is given."""

    def __init__(self, binary, folder, strike=None):
        line = [str(binary), "serve", "--config", "estop.yaml", "--data-dir", "data"]
        if strike:
            calls, what = strike
            watch = ["strace", "-f", "-qq", "-o", str(folder / "strace.txt"), "-e", f"trace={calls}"]
            line = [*watch, "-e", f"inject={calls}:{what}", *line]
        errors = open(folder / "errors.txt", "ab")
        self.process = subprocess.Popen(
            line, cwd=folder, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
        )
        errors.close()
        # strace may hold the line back for as long as its estop lives.
        timer = threading.Timer(START_WITHIN_S, self.kill)
        timer.start()
        first = self.process.stdout.readline()
        timer.cancel()
        self.url = first.split(" on ")[1].strip() if " on " in first else None
        self.socket = folder / "data" / "estop.sock"

    def emergency(self, what, body=None):
        """The answer of /api/emergency/…; None if none came."""
        method = "POST" if body is not None else "GET"
        try:
            connection = OwnerConnection(self.socket, ANSWER_WITHIN_S)
            headers = {"content-type": "application/json"}
            connection.request(method, f"/api/emergency/{what}", body and json.dumps(body), headers)
            answer = connection.getresponse()
            return json.loads(answer.read()) if answer.status == 200 else None
        except (OSError, ValueError, http.client.HTTPException):
            return None

    def get(self, path):
        """What the API answers the owner."""
        connection = OwnerConnection(self.socket, ANSWER_WITHIN_S)
        connection.request("GET", path)
        return json.loads(connection.getresponse().read())

    def ask(self, agent, words):
        """The status of a whole answer; None if none came."""
        body = {"model": "gpt-4o-mini", "max_tokens": 50, "messages": [{"role": "user", "content": words}]}
        url = f"{self.url}/agents/{agent}/openai/v1/chat/completions"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:
                answer.read()
                return answer.status
        except urllib.error.HTTPError as error:
            with contextlib.suppress(OSError):
                error.read()
            return error.code
        except (OSError, ValueError):
            return None
        except Exception:  # http.client: the answer broke off
            return None

    def end(self):
        """Ends it as a service manager would; whether it ended well."""
        pids = subprocess.run(["pgrep", "-s", str(self.process.pid), "-x", "estop"], capture_output=True, text=True)
        for pid in pids.stdout.split():
            with contextlib.suppress(OSError):
                os.kill(int(pid), signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(START_WITHIN_S)
        self.kill()
        return self.process.returncode == 0

    def kill(self):
        subprocess.run(["pkill", "-KILL", "-s", str(self.process.pid)], check=False)
        self.process.wait()


def scripted(estop):
    """What was said to clients: answers, and whether `stuck` was told that it is stopped."""
    answered, stopped = {"good": 0, "stuck": 0}, False
    script = [("good", f"Tell me about {word}.") for word in ("rivers", "engines", "letters")]
    script += [("stuck", "Is the build done?")] * 12 + [("good", "And about gardens."), ("good", "And planets.")]
    for agent, words in script:
        if stopped and agent == "stuck":
            continue
        status = estop.ask(agent, words)
        answered[agent] += status == 200
        stopped |= agent == "stuck" and status == 400
    return answered, stopped, [estop.emergency(what, body) for what, body, _ in BUTTON]


def check(binary, folder, said, fault):
    """Starts estop again and compares; the list of what is wrong."""
    answered, stopped, told = said
    wrong = []
    again = Estop(binary, folder)
    if again.url is None:
        return ["it does not start again: " + (folder / "errors.txt").read_text()[-400:]]
    wrong += check_button(again, told, fault)
    if stopped and again.ask("stuck", "Something else") != 400:
        wrong.append("the stopped agent works again")
    if again.ask("other", "Hello") != 200:
        wrong.append("a healthy agent is refused")
    if "panicked" in (folder / "errors.txt").read_text(errors="replace"):
        wrong.append("a thread panicked")
    wrong += check_evidence(again, stopped)
    if not again.end():
        wrong.append("it does not end well")
    database = sqlite3.connect(folder / "data" / "estop.db")
    for (found,) in database.execute("pragma integrity_check"):
        # Python's SQLite may be older than estop's, and take a NULL for a broken CHECK.
        if found != "ok" and not found.startswith("CHECK constraint failed"):
            wrong.append(f"the database is damaged: {found}")
    kept = dict(database.execute("select agent, sum(requests) from spend group by agent").fetchall())
    for agent, count in answered.items():
        # One more may be kept than was answered: its client was cut off at the end.
        if not count <= kept.get(agent, 0) <= count + 1:
            wrong.append(f"{agent}: {count} answered, {kept.get(agent, 0)} remembered")
    database.close()
    journal = folder / "journal.jsonl"
    export = [str(binary), "journal", "export", "--data-dir", "data", "--output", str(journal)]
    for line in (export, [str(binary), "verify", str(journal)], [str(binary), "replay", str(journal)]):
        done = subprocess.run(line, cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            wrong.append(f"{line[1]}: {done.stdout[-300:]}{done.stderr[-300:]}")
    return wrong


def check_evidence(again, stopped):
    """Each incident of an agent has its steps, or says why it has none (EV-1)."""
    wrong = []
    listed = again.get("/api/incidents?agent=stuck")
    if listed.get("code") == "not_found" and not stopped:
        # It was killed before anything of this agent was kept.
        return wrong
    if stopped and not listed["incidents"]:
        wrong.append("the stop has no incident")
    for incident in listed["incidents"]:
        shown = again.get(f"/api/incidents/{incident['id']}")
        if not shown["steps"] and not shown["steps_missing"]:
            wrong.append(f"incident {incident['id']} has neither steps nor the reason why not")
        if shown["steps"] and shown["steps"][-1]["end"] != "refused":
            wrong.append(f"the last step of {incident['id']} is not the one that was refused: {shown['steps'][-1]}")
    return wrong


def check_button(again, told, fault):
    """Whether the button is as it was said to be; it is cleared afterwards."""
    wrong = []
    status = again.emergency("status") or {}
    state = status.get("state")
    states = ["running", *(after for _, _, after in BUTTON)]
    # What was kept counts; what was asked for after it may have been done or not.
    kept = max((number for number, answer in enumerate(told, 1) if answer and answer["persisted"]), default=0)
    # Who was killed while it did one thing has not done the next.
    reached = told.index(None) + 1 if fault == "killed" and None in told else len(BUTTON)
    # Nothing was asked: it never got so far.
    if state not in (states[kept : reached + 1] if told else ["running", "shutdown"]):
        wrong.append(f"the button comes back {state}; kept was {states[kept]}, after {told}")
    if kept == len(BUTTON) and (status["reason"], status["note"]) != ("security_incident", "a drill"):
        wrong.append(f"it does not know why the button was pressed: {status}")
    # In safe mode the answer is a canned one.
    if state == "shutdown" and again.ask("other", "Hello") == 200:
        wrong.append("a request passes though the button is pressed")
    if state == "shutdown" and not again.emergency("restart", {}):
        wrong.append("the button cannot be restarted")
    if state in ("shutdown", "safe_mode") and not again.emergency("clear", {}):
        wrong.append("the button cannot be cleared")
    return wrong


def was_struck(folder):
    trace = (folder / "strace.txt").read_text(errors="replace")
    return "INJECTED" in trace or "killed by SIGKILL" in trace


def one(binary, model, fault, n):
    """One run with one fault; whether it was reached, and what is wrong after it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-faults-"))
    try:
        (folder / "estop.yaml").write_text(CONFIG.format(model=model))
        calls, what = FAULTS[fault]
        estop = Estop(binary, folder, (calls, what.format(n=n)))
        said, wrong = ({"good": 0, "stuck": 0}, False, []), []
        if estop.url:
            said = scripted(estop)
            # Once the disk is full, nothing may pass: what is answered now could not be remembered. After the button
            # nothing may pass anyway.
            is_full = fault == "disk full from there on" and was_struck(folder)
            if estop.ask("late", "Hello") == 200 and (is_full or said[2][-1]):
                wrong.append("a request passes though the button is pressed, or nothing can be written")
        estop.end()
        return was_struck(folder), wrong + check(binary, folder, said, fault)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=7, help="strike at each so-manieth write")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    if not shutil.which("strace"):
        sys.exit("strace is missing: apt-get install --yes strace")
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        print("Skipped: this machine does not let strace look at programs.")
        return
    listen = [str(options.binaries / "estop-fake-model"), "--listen", "127.0.0.1:0"]
    fake = subprocess.Popen(listen, stdout=subprocess.PIPE, text=True)
    failures = 0
    try:
        model = "http://" + fake.stdout.readline().split("//")[1].strip()
        for fault in FAULTS:
            n, runs = 1, 0
            while True:
                struck, wrong = one(options.binaries / "estop", model, fault, n)
                runs += struck
                for problem in wrong:
                    failures += 1
                    print(f"{fault}, write {n}: {problem}", flush=True)
                if not struck:
                    break
                n += options.every
            print(f"{fault}: {runs} places, the last at write {n - options.every}", flush=True)
    finally:
        fake.kill()
        fake.wait()
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
