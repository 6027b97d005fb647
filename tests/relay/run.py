#!/usr/bin/env python3
"""Speaks through the relay of a real estop with the libraries of Telegram and Slack (KS-10).

Usage: tests/relay/run.py [--binaries FOLDER]   (needs a built estop)

The libraries are installed once, in the versions of requirements.txt, into ESTOP_TOOLS_CACHE (default
~/.cache/estop-tools). Where they cannot be got, the test is skipped and says so.
"""

import argparse
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import ADMIN_TOKEN, journal_is_whole  # noqa: E402
import tools  # noqa: E402
WITHIN_S = 60


def said_before(lines, pattern, log):
    """Reads what estop says up to the line that matches; the match."""
    for line in lines:
        log.append(line)
        if found := re.search(pattern, line):
            return found.group(1)
    sys.exit(f"estop ended before it said {pattern}")


def tried(python, estop, folder):
    """Whether all went well; what estop said besides."""
    driver = subprocess.Popen(
        [python, HERE / "drive.py"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", NO_PROXY="127.0.0.1"),
    )
    daemon = None
    log = []
    try:
        relays = json.loads(driver.stdout.readline())
        config = {
            "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"}, "relays": relays, "require_keys": True,
            "agents": {"bot": {"key_env": "BOT_KEY"}},
        }
        # JSON is YAML.
        (folder / "estop.yaml").write_text(json.dumps(config))
        key, secret = f"estop-key-{secrets.token_hex(16)}", secrets.token_hex(32)
        daemon = subprocess.Popen(
            [estop, "serve", "--config", "estop.yaml", "--data-dir", "data"], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, BOT_KEY=key, RELAY_SECRET=secret),
        )
        at = {
            "data": said_before(daemon.stdout, r"listening on (\S+)", log),
            "admin": said_before(daemon.stdout, r"Admin API: (\S+)/api/docs", log),
            "token": ADMIN_TOKEN,
            "key": key, "secret": secret,
        }
        reader = threading.Thread(target=lambda: log.extend(daemon.stdout), daemon=True)
        reader.start()
        driver.stdin.write(json.dumps(at) + "\n")
        driver.stdin.close()
        for line in driver.stdout:
            print(line, end="", flush=True)
        fine = driver.wait(WITHIN_S) == 0
        daemon.send_signal(signal.SIGTERM)
        fine &= daemon.wait(WITHIN_S) == 0
        reader.join(WITHIN_S)
        return fine and nothing_leaked(folder, log, key, secret) and messages_are_written_down(estop, folder)
    finally:
        for process in filter(None, (driver, daemon)):
            process.kill()
            process.wait()


def nothing_leaked(folder, log, key, secret):
    """Whether no token, key, secret or word is in what estop wrote and said."""
    written = "".join(log).encode() + b"".join(file.read_bytes() for file in folder.rglob("*") if file.is_file())
    hidden = ["AAHcanaryTOKENofTELEGRAM", "xoxb-canary-token", key, secret, "hellö", "signing-secret"]
    leaked = [word for word in hidden if word.encode() in written]
    if leaked:
        print(f"written down though it must not be: {leaked}")
    return not leaked


def messages_are_written_down(estop, folder):
    """Whether the journal holds together, and has the messages."""
    if not journal_is_whole(estop, folder):
        return False
    journal = (folder / "journal.jsonl").read_text()
    counts = {word: journal.count(f'"{word}"') for word in ("message_in", "message_out")}
    print("written down:", counts)
    return all(counts.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    estop = parser.parse_args().binaries.resolve() / "estop"
    installed = tools.python("messaging", HERE / "requirements.txt", "python-telegram-bot and slack_sdk")
    if installed is None:
        print("skipped: python-telegram-bot and slack_sdk cannot be installed here (no network?)")
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-relay-"))
    try:
        fine = tried(installed / "python", estop, folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("fine" if fine else "FAILED")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
