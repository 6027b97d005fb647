#!/usr/bin/env python3
"""Asks the API of a running estop everything its OpenAPI document allows, and much that it forbids (schemathesis).

Usage: tests/api/run.py [--long] [--seed N] [--binaries FOLDER]   (needs a built estop and estop-fake-model)

A real `estop serve` with traffic behind it: agents at work, stopped and paused, an incident, runs, keys and tokens.
Whatever is asked, estop must not fail (5xx), must answer only what its document says, must ask for a token where the
document does, and must refuse what the document forbids. At the end it must still be there, answer the same token, and
its journal must verify and replay.

schemathesis is installed once, in the versions of requirements.txt, into ESTOP_TOOLS_CACHE (default
~/.cache/estop-tools).
"""

import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import ADMIN_TOKEN, journal_is_whole  # noqa: E402
import tools  # noqa: E402
CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
providers: {{openai: {{base_url: "{model}"}}}}
policy: {{kill_switch_enabled: true}}
circuit_breakers: {{defaults: {{max_turns: 3}}}}
agents: {{good: {{}}, stuck: {{policy: {{limits: {{max_turns: off}}}}}}}}
alerts: {{channels: {{own: {{type: webhook, url: "{model}", allow_loopback: true}}}}, rules: {{stops: {{types: [kill_switch]}}}}}}
"""
ANSWER_WITHIN_S = 20
# Taken back, our own token would end the run: everything after it would be 401. So this route comes last and alone.
TAKES_TOKENS_BACK = "delete_tokens_id"
# Its answer is a line to a supervisor, which ends when the supervisor does.
STAY_OPEN = ("post_runs_watch", "post_agents_id_recording")


def said_before(process, pattern):
    """Reads what a process says up to the line that matches; the match."""
    for line in process.stdout:
        found = re.search(pattern, line)
        if found:
            return found.group(1)
    sys.exit(f"{process.args[0]} ended before it said {pattern}")


def ended(process):
    process.send_signal(signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(ANSWER_WITHIN_S)
    process.kill()
    return process.wait()


def call(url, token=None, body=None, method=None, headers=()):
    """Status and document of an answer."""
    headers = {"content-type": "application/json", **dict(headers)}
    if token:
        headers["authorization"] = f"Bearer {token}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_WITHIN_S) as answer:
            return answer.status, json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"null")


def furnish(data, admin, token):
    """Something of everything the API can show; the ids schemathesis cannot find out."""

    def make(path, body=None):
        status, said = call(f"{admin}/api/{path}", token, body, "POST")
        assert status in (200, 201), (path, status, said)
        return said

    make("agents", {"id": "idle", "role": "pm"})
    make("agents/idle/pause")
    make("runs", {"agent": "good", "run": "one"})
    key = make("agents/good/keys")["key"]
    make("tokens", {"name": "reader", "role": "viewer"})
    for agent, turns in [("good", 9), ("stuck", 13)]:
        for turn in range(turns):
            words = f"Tell me about {turn} rivers" if agent == "good" else "Is the build done?"
            body = {"model": "gpt-4o-mini", "max_tokens": 50, "messages": [{"role": "user", "content": words}]}
            headers = {"x-estop-run": "one"} if agent == "good" else {}
            url = f"{data}/agents/{agent}/openai/v1/chat/completions"
            status, _ = call(url, key if agent == "good" else None, body, headers=headers)
            assert status in (200, 400), status
    # It has reached its limit and used up what it had to sum up with: it is escalated.
    make("runs", {"agent": "good", "run": "two"})
    return {
        "ESTOP_HOOKS": str(HERE / "hooks.py"),
        "ESTOP_TOKEN_ID": make("tokens", {"name": "second", "role": "admin"})["id"],
        "ESTOP_INCIDENT": first(admin, token, "incidents"),
        "ESTOP_ESCALATION": first(admin, token, "escalations"),
    }


def first(admin, token, kind):
    """The id of the newest case; they are stored a moment after their request was answered."""
    begun = time.monotonic()
    while time.monotonic() < begun + ANSWER_WITHIN_S:
        if found := call(f"{admin}/api/{kind}", token)[1][kind]:
            return str(found[0]["id"])
        time.sleep(0.05)
    sys.exit(f"there are no {kind}")


def asked(tool, admin, variables, options, extra):
    line = [tool, "--config-file", HERE / "schemathesis.toml", "run", f"{admin}/api/openapi.json"]
    line += ["--no-color", "--generation-database", "none", "--seed", str(options.seed)]
    line += ["--max-examples", str(400 if options.long else 12), "--continue-on-failure", *extra]
    environment = dict(os.environ, PYTHONUNBUFFERED="1", PYTHONDONTWRITEBYTECODE="1", **variables)
    # Away from other files it would read, and with no folder of its own left behind.
    with tempfile.TemporaryDirectory(prefix="estop-api-") as folder:
        return subprocess.run(line, cwd=folder, env=environment).returncode == 0


def tried(tool, options, model, folder):
    (folder / "estop.yaml").write_text(CONFIG.format(model=model))
    estop = options.binaries / "estop"
    line = [estop, "serve", "--config", "estop.yaml", "--data-dir", "data"]
    daemon = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        data = said_before(daemon, r"listening on (\S+)")
        admin = said_before(daemon, r"Admin API: (\S+)/api/docs")
        token = ADMIN_TOKEN
        variables = dict(furnish(data, admin, token), ESTOP_TOKEN=token)
        excluded = [part for name in (TAKES_TOKENS_BACK, *STAY_OPEN) for part in ("--exclude-operation-id", name)]
        fine = asked(tool, admin, variables, options, excluded)
        fine &= asked(tool, admin, variables, options, ["--include-operation-id", TAKES_TOKENS_BACK])
        status, state = call(f"{admin}/api/emergency/status", token)
        if status != 200 or call(f"{admin}/healthz")[0] != 200:
            print(f"estop does not answer any more: {status} {state}")
            fine = False
    finally:
        code = ended(daemon)
    if code != 0:
        print(f"estop ended with {code}")
    return fine and code == 0 and journal_is_whole(estop, folder)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--long", action="store_true", help="many more requests, other ones each time")
    parser.add_argument("--seed", type=int, help="the same requests again; 1 unless --long")
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    options = parser.parse_args()
    options.binaries = options.binaries.resolve()
    if options.seed is None:
        options.seed = random.randrange(2**32) if options.long else 1
    print(f"seed {options.seed}", flush=True)
    installed = tools.python("schemathesis", HERE / "requirements.txt", "schemathesis")
    if installed is None:
        sys.exit("schemathesis cannot be installed")
    tool = installed / "schemathesis"
    fake = subprocess.Popen([options.binaries / "estop-fake-model"], stdout=subprocess.PIPE, text=True)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-api-"))
    try:
        fine = tried(tool, options, said_before(fake, r"listening on (\S+)"), folder)
    finally:
        fake.kill()
        fake.wait()
        shutil.rmtree(folder, ignore_errors=True)
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
