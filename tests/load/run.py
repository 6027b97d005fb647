#!/usr/bin/env python3
"""A load of every protocol: agents that talk to a fake model through estop, plain and streamed, with tools and growing conversations.

Usage: tests/load/run.py [--binaries FOLDER] [--seconds N]   (needs a built estop)

Not a benchmark. Any answer that is not the model's fails it, and so do a guard that would stop one of these healthy agents and
a journal that does not hold together.
"""

import argparse
import http.client
import itertools
import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import journal_is_whole  # noqa: E402

AGENTS = 8
# Every protocol in turn; chat more often than others, as in life. True: streamed.
KINDS = [
    ("chat", False), ("messages", True), ("chat", True), ("responses", False), ("chat", False), ("messages", False),
    ("gemini", False), ("chat", True), ("responses", True), ("gemini", True), ("ollama", True), ("embeddings", False),
]
# A conversation with tools has as many turns.
TURNS_MAX = 20
# Anthropic and Gemini are reached by TLS, the others plainly. The agents are faster than any: that alone is nothing to stop.
CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
providers:
  openai: {{base_url: "{plain}"}}
  ollama: {{base_url: "{plain}"}}
  anthropic: {{base_url: "{tls}", ca_file: certificate.pem}}
  gemini: {{base_url: "{tls}", ca_file: certificate.pem}}
watchdog: {{scope: off}}
circuit_breakers: {{defaults: {{max_turns: 1000000000, max_tool_calls: 1000000000, max_iterations: 1000000000}}}}
gate: {{max_tokens_per_minute: 1000000000, max_tool_calls_per_minute: 1000000000, tempo_compression_ratio: 0.001}}
"""
WORDS = """river budget lantern compiler harvest orbit ledger violin glacier market theorem anchor copper festival protein
meadow engine archive tribunal cathedral spectrum orchard vaccine harbor equation tapestry furnace satellite grammar canyon
turbine mosaic senate fossil reactor sonnet delta pension quartz vineyard""".split()
PARTS = 300


def words(number, count):
    """So many words; others for each number."""
    picked = []
    for at in range(count):
        number = (number * 6364136223846793005 + 1442695040888963407 + at) % 2**64
        picked.append(WORDS[(number >> 33) % len(WORDS)])
    return " ".join(picked)


def script():
    """What the model says: something else for each page that came last, or each section that was asked for."""
    rules = []
    for at, part in enumerate(("page", "section")):
        for number in range(PARTS):
            said = f"{words(number * 2 + at, 30)}."
            rules.append({"match": {"contains": f"{part} {number}."}, "reply": {"text": said}})
    return rules


def started(command, folder, says):
    """A process, and what it says it listens on."""
    log = folder / f"{time.monotonic_ns()}.log"
    with log.open("wb") as out:
        process = subprocess.Popen([str(part) for part in command], cwd=folder, stdout=out, stderr=subprocess.STDOUT)
    for _ in range(600):
        found = re.search(says + r"(\S+)\s", log.read_text())
        if found:
            return process, found.group(1)
        if process.poll() is not None:
            break
        time.sleep(0.1)
    process.kill()
    process.wait()
    sys.exit(f"{command[0]} does not start: {log.read_text()[-500:]}")


def task(number):
    return f"Task {number}: {words(number, 12)}. Sum up section {number % PARTS}."


def result(number, turn, turns):
    """What a tool says. Only the newest result names a page, so that the model says something new."""
    ends = f" Goes on at page {(number + turn * 17) % PARTS}." if turn + 1 == turns else ""
    return f"{words(turn * 3 + number, 25)} \"quoted\"\n{ends}"


def chat(number, turns):
    messages = [{"role": "system", "content": "You are a careful agent."}, {"role": "user", "content": task(number)}]
    for turn in range(turns):
        function = {"name": "read", "arguments": json.dumps({"line": turn * 10 + number})}
        messages.append({"role": "assistant", "content": None, "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": function}]})
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": result(number, turn, turns)})
    return {"model": "gpt-4o-mini", "messages": messages, "max_tokens": 64}


def claude(number, turns):
    messages = [{"role": "user", "content": task(number)}]
    for turn in range(turns):
        use = {"type": "tool_use", "id": f"toolu_{turn}", "name": "read", "input": {"line": turn * 10 + number}}
        came = {"type": "tool_result", "tool_use_id": f"toolu_{turn}", "content": result(number, turn, turns)}
        messages += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [came]}]
    return {"model": "claude-sonnet-4-5", "system": "You are a careful agent.", "messages": messages, "max_tokens": 64}


def asked(kind, stream, number, turns):
    """Path, body, and a word of a good answer."""
    if kind == "chat":
        return "openai/v1/chat/completions", {**chat(number, turns), "stream": stream}, b'"choices"'
    if kind == "messages":
        return "anthropic/v1/messages", {**claude(number, turns), "stream": stream}, b'"usage"'
    if kind == "responses":
        return "openai/v1/responses", {"model": "gpt-4o", "input": task(number), "stream": stream}, b'"output'
    if kind == "gemini":
        method = "streamGenerateContent?alt=sse" if stream else "generateContent"
        body = {"contents": [{"role": "user", "parts": [{"text": task(number)}]}]}
        return f"gemini/v1beta/models/gemini-2.5-flash:{method}", body, b'"candidates"'
    if kind == "ollama":
        body = {"model": "llama3.2", "messages": [{"role": "user", "content": task(number)}], "stream": stream}
        return "ollama/api/chat", body, b'"message"'
    return "openai/v1/embeddings", {"model": "text-embedding-3-small", "input": task(number)}, b'"embedding"'


class Load:
    """What all agents share."""

    def __init__(self, address, seconds):
        self.address, self.until = address, time.monotonic() + seconds
        self.wrong, self.kinds = [], []

    def agent(self, name):
        """One agent: asks one thing after the other on one connection."""
        try:
            self.ask_on(name)
        except Exception as error:  # A thread that dies must not pass for one that is done.
            self.wrong.append(f"agent-{name}: {error!r}")

    def ask_on(self, name):
        connection = http.client.HTTPConnection(self.address, timeout=30)
        headers = {"content-type": "application/json", "user-agent": "load/1"}
        # Where the conversation of each kind stands: its number, and its turns so far.
        talks = [(at, 0) for at in range(len(KINDS))]
        for round_ in itertools.count(1):
            for at, (kind, stream) in enumerate(KINDS):
                if time.monotonic() > self.until or self.wrong:
                    return connection.close()
                number, turns = talks[at]
                path, body, word = asked(kind, stream, name * 1_000_003 + number * 31, turns)
                connection.request("POST", f"/agents/agent-{name}/{path}", json.dumps(body), headers)
                answer = connection.getresponse()
                said = answer.read()
                if answer.status != 200 or word not in said:
                    self.wrong.append(f"{kind}: {answer.status} {said[:300]}")
                self.kinds.append(kind)
                goes_on = kind in ("chat", "messages") and turns < TURNS_MAX
                talks[at] = (number, turns + 1) if goes_on else (round_ * len(KINDS) + at, 0)

    def run(self):
        threads = [threading.Thread(target=self.agent, args=(name,)) for name in range(AGENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def ended(process):
    """How a process ends that is asked to."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(60)
    except subprocess.TimeoutExpired:
        return "not at all"


def stops(journal):
    """Of how many requests a guard says that it stops them, or would."""
    rulings = re.compile(r'"rulings":"([^"]*)"')
    lines = (rulings.search(line) for line in journal.read_text().splitlines())
    return sum(1 for found in lines if found and set(found.group(1)) & set("sx"))


def try_it(args, folder, running):
    (folder / "script.json").write_text(json.dumps(script()))
    said = r"listening on "
    model = [args.binaries.resolve() / "estop-fake-model", "--script", "script.json"]
    process, plain = started(model, folder, said)
    running.append(process)
    process, tls = started([*model, "--tls", "--certificate-out", "certificate.pem"], folder, said)
    running.append(process)
    (folder / "estop.yaml").write_text(CONFIG.format(plain=plain, tls=tls))
    serve = [args.binaries.resolve() / "estop", "serve", "--config", "estop.yaml", "--data-dir", "data"]
    estop, url = started(serve, folder, said)
    running.append(estop)
    load = Load(url.removeprefix("http://").rstrip("/"), args.seconds)
    load.run()
    how = ended(estop)
    if how != 0:
        logs = sorted(folder.glob("*.log"))
        load.wrong.append(f"estop ended: {how}. Last it said: {logs[-1].read_text()[-500:]}")
    if not load.wrong:
        if not journal_is_whole(args.binaries.resolve() / "estop", folder):
            load.wrong.append("the journal is not whole")
        elif stops(folder / "journal.jsonl"):
            load.wrong.append(f"a guard would stop {stops(folder / 'journal.jsonl')} requests of healthy agents")
    return load


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    arguments.add_argument("--seconds", type=float, default=10)
    args = arguments.parse_args()
    running = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            load = try_it(args, pathlib.Path(folder), running)
        finally:
            for process in running:
                process.kill()
                process.wait()
    for line in load.wrong[:5]:
        print(line)
    print(f"{len(load.kinds)} requests of {len(set(load.kinds))} kinds, {len(load.wrong)} wrong")
    missing = {kind for kind, _ in KINDS} - set(load.kinds)
    sys.exit(1 if load.wrong or missing else 0)


if __name__ == "__main__":
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
