"""A running estop, asked over its owner's socket, and a supervisor's line to it."""

import contextlib
import hashlib
import json
import secrets
import subprocess
import time
import urllib.parse

from daemon import OwnerConnection
from process import kill_group
from servers import free_port

WITHIN_S = 30
PROVIDERS = ["openai", "anthropic", "gemini"]


class Wrong(Exception):
    """Something is not as it should be."""


class Estop:
    """`estop serve` before the fake model."""

    def __init__(self, binary, folder, model_port):
        self.binary = binary
        self.port = free_port()
        self.data = folder / "data"
        self.socket = self.data / "estop.sock"
        config = {
            "listen": {"data": f"127.0.0.1:{self.port}", "admin": "127.0.0.1:0"},
            "data_dir": str(self.data),
            "providers": {name: {"base_url": f"http://127.0.0.1:{model_port}"} for name in PROVIDERS},
        }
        # JSON is YAML, too.
        (folder / "estop.yaml").write_text(json.dumps(config))
        line = [str(binary), "serve", "--config", str(folder / "estop.yaml")]
        with open(folder / "estop.log", "wb") as log:
            self.process = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + WITHIN_S
        while True:
            with contextlib.suppress(OSError):
                self.get("/api/stats")
                return
            if time.monotonic() > deadline or self.process.poll() is not None:
                raise SystemExit(f"estop does not start: {(folder / 'estop.log').read_text()}")
            time.sleep(0.05)

    def stop(self):
        self.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(WITHIN_S)
        kill_group(self.process)

    def base(self, provider, agent=None, ticket=None):
        """The address of a provider for an agent, or for the run of a ticket."""
        who = f"runs/{ticket}" if ticket else f"agents/{agent}"
        return f"http://127.0.0.1:{self.port}/{who}/{provider}"

    def get(self, path):
        return self.ask("GET", path)

    def ask(self, method, path, body=None):
        connection = OwnerConnection(self.socket, WITHIN_S)
        connection.request(method, path, json.dumps(body) if body else None, {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        connection.close()
        if answer.status >= 300:
            raise Wrong(f"{method} {path}: {answer.status} {text.decode()}")
        return json.loads(text) if text else None

    def wait_for(self, path, key, fits):
        """An entry of a list; the store is written behind the answer."""
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            entries = self.get(path)[key]
            if found := [entry for entry in entries if fits(entry)]:
                return found[0]
            time.sleep(0.1)
        raise Wrong(f"{path} has none: {entries}")

    def command(self, *words):
        line = [str(self.binary), *words, "--data-dir", str(self.data)]
        done = subprocess.run(line, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Wrong(f"{' '.join(words)}: {done.returncode} {done.stdout}{done.stderr}")

    def begin(self, run, **more):
        return Line(self, "hooked", run, more)


class Line:
    """A supervisor's line for one run: while it is open, the ticket names agent and run."""

    def __init__(self, estop, agent, run, more):
        self.run = run
        self.estop = estop
        self.ticket = secrets.token_hex(32)
        self.environment = {
            "ESTOP_AGENT": agent,
            "ESTOP_RUN": run,
            "ESTOP_TICKET": self.ticket,
            "ESTOP_SOCKET": str(estop.socket),
        }
        body = {
            "agent": agent,
            "run": run,
            "attended": True,
            "kind": "program",
            "ticket_sha256": hashlib.sha256(self.ticket.encode()).hexdigest(),
            "begin": True,
            **more,
        }
        self.connection = OwnerConnection(estop.socket, WITHIN_S)
        headers = {"content-type": "application/json"}
        self.connection.request("POST", "/api/runs/watch", json.dumps(body), headers)
        answer = self.connection.getresponse()
        first = answer.readline()
        if answer.status != 200 or b'"watching"' not in first:
            raise Wrong(f"no line: {answer.status} {first.decode()}")
        self.id = json.loads(first)["id"]

    def complete(self):
        """The program ended, as a supervisor says it. A run that was stopped becomes a person's then."""
        try:
            self.estop.ask("POST", f"/api/runs/{urllib.parse.quote(self.id, safe='')}/complete")
        except Wrong as wrong:
            # It used up what it had to sum up with: it is a person's already.
            if "ESCALATED" not in str(wrong):
                raise
        self.connection.close()
