"""What the tests in Python share: the owner's socket of an estop, and whether its journal holds together."""

import http.client
import os
import socket
import subprocess

# Of every estop the tests start, and of every command they run: unlocking the button needs it, also over the owner's socket.
# It has the form of a token that estop makes, so that no start waits for a slow hash.
ADMIN_TOKEN = "estop_admin_" + "0123456789abcdef" * 4
os.environ["ESTOP_ADMIN_TOKEN"] = ADMIN_TOKEN
UNLOCKS = ("/api/emergency/restart", "/api/emergency/clear")


class OwnerConnection(http.client.HTTPConnection):
    """HTTP over the owner's socket."""

    def __init__(self, path, within_s):
        super().__init__("localhost", timeout=within_s)
        self.path = str(path)

    def request(self, method, url, body=None, headers=None, **more):
        headers = dict(headers or {})
        if url in UNLOCKS:
            headers["authorization"] = f"Bearer {ADMIN_TOKEN}"
        super().request(method, url, body, headers, **more)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)


def journal_is_whole(estop, folder):
    """Whether what was written down holds together; says what does not. Leaves it in journal.jsonl."""
    export = ["journal", "export", "--data-dir", "data", "--output", "journal.jsonl"]
    for line in (export, ["verify", "journal.jsonl"], ["replay", "journal.jsonl"]):
        done = subprocess.run([str(estop), *line], cwd=folder, capture_output=True, text=True)
        if done.returncode != 0:
            print(f"estop {' '.join(line)}: {done.stdout[-500:]}{done.stderr[-500:]}")
            return False
    return True
