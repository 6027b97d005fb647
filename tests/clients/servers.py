"""Starts and ends what the clients talk to: the fake model, and estop in front of it."""

import contextlib
import json
import pathlib
import re
import socket
import subprocess
import time
import urllib.request

from process import kill_group

START_TIMEOUT_S = 60
REQUEST_TIMEOUT_S = 10
STOP_TIMEOUT_S = 20
# The journal is written behind the answer.
JOURNAL_TIMEOUT_S = 5
PROVIDERS = ["openai", "anthropic", "gemini", "ollama"]


class FakeModel:
    """A model that answers in every protocol, calls tools when asked to and loops when told to."""

    def __init__(self, binary, folder):
        self.log = (folder / "fake-model.log").open("wb")
        line = [str(binary), "--listen", "127.0.0.1:0"]
        streams = {"stdout": subprocess.PIPE, "stderr": self.log}
        self.program = subprocess.Popen(line, text=True, start_new_session=True, **streams)
        self.port = int(re.search(r"http://[^:]+:(\d+)", self.program.stdout.readline()).group(1))

    def reset(self):
        fetch(f"http://127.0.0.1:{self.port}/_reset", method="POST")

    def teach(self, rules):
        fetch(f"http://127.0.0.1:{self.port}/_script", method="POST", body=rules)

    def seen(self):
        return fetch(f"http://127.0.0.1:{self.port}/_seen")

    def stop(self):
        kill_group(self.program)


class Estop:
    """`estop serve` with every provider leading to the fake model; loops are stopped, or watched."""

    def __init__(self, binary, folder, model_port, stop_loops=True):
        self.binary = binary
        self.port = free_port()
        self.data = folder / "estop-data"
        config = {
            "listen": {"data": f"127.0.0.1:{self.port}", "admin": f"127.0.0.1:{free_port()}"},
            "data_dir": str(self.data),
            "providers": {name: {"base_url": f"http://127.0.0.1:{model_port}"} for name in PROVIDERS},
            "policy": {"kill_switch_enabled": stop_loops},
        }
        # JSON is YAML, too.
        (folder / "estop.yaml").write_text(json.dumps(config, indent=2))
        self.log_path = folder / "estop.log"
        line = [str(binary), "serve", "--config", str(folder / "estop.yaml")]
        with self.log_path.open("wb") as log:
            self.program = subprocess.Popen(line, stdout=log, stderr=log, start_new_session=True)
        self.wait_until_up()

    def wait_until_up(self):
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self.program.poll() is None:
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            time.sleep(0.05)
        raise RuntimeError(f"estop did not start:\n{self.log_path.read_text()}")

    def deactivations(self, agent):
        """Why this agent was deactivated, by the journal; a list, oldest first."""
        deadline = time.monotonic() + JOURNAL_TIMEOUT_S
        while not (found := list(self.read_deactivations(agent))) and time.monotonic() < deadline:
            time.sleep(0.1)
        return found

    def read_deactivations(self, agent):
        for line in self.export().splitlines():
            row = json.loads(line)
            if row.get("agent") != agent or "seq" not in row:
                continue
            for effect in row.get("decision", {}).get("effects", []):
                if isinstance(effect, dict) and "deactivated" in effect:
                    yield effect["deactivated"]["cause"]

    def export(self):
        """The journal so far; it can be read while estop runs."""
        line = [str(self.binary), "journal", "export", "--data-dir", str(self.data)]
        return subprocess.run(line, capture_output=True, text=True, timeout=60, check=True).stdout

    def verify(self):
        """What is wrong with the journal of the whole run; empty if nothing is."""
        journal = self.data / "journal.jsonl"
        journal.write_text(self.export())
        line = [str(self.binary), "verify", str(journal)]
        done = subprocess.run(line, capture_output=True, text=True, timeout=60)
        return "" if done.returncode == 0 else done.stdout + done.stderr

    def stop(self):
        """Ends estop as a service manager would, which lets it close its journal."""
        self.program.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.program.wait(STOP_TIMEOUT_S)
        kill_group(self.program)


def fetch(url, method="GET", body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method)
    with urllib.request.urlopen(request, timeout=REQUEST_TIMEOUT_S) as answer:
        body = answer.read()
    return json.loads(body) if body.strip() else None


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def version_of(binary: pathlib.Path):
    return subprocess.run([str(binary), "--version"], capture_output=True, text=True, timeout=30).stdout.strip()
