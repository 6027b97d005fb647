#!/usr/bin/env python3
"""Real coding agents under `estop run`, with hooks for that run alone: Claude Code and Codex; with --all Gemini CLI.

Usage: tests/run/clients.py [--binaries FOLDER] [--all]   (needs estop and estop-fake-model)

Each runs unmodified in an empty home against the fake model, which asks for one tool. Seen for each:

  runs     the tool runs; its call and the model calls are counted in the run, found by the ticket in the base URL
  asked    with --limit max_tool_calls=1 the same tool does not run: the hook was there, and is refused
  killed   `estop kill` ends it while the model is slow
  clean    no file of the client's mentions estop

Clients come from tests/clients (installed once, into ESTOP_CLIENTS_CACHE); after that nothing needs the network.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "clients"), str(ROOT / "tests"), str(ROOT / "tests" / "hooks")]
import agents  # noqa: E402
from estop import Estop, Wrong  # noqa: E402
from install import install  # noqa: E402
from run import cut_network  # noqa: E402
from servers import FakeModel  # noqa: E402

TIMEOUT_S = 120
PROMPT = "make it"


class Codex(agents.Codex):
    """Without a provider on its command line: that is for `estop run` to put there."""

    def launch(self, installed, base, prompt):
        line = [installed.binary("codex", "codex"), "exec", "--skip-git-repo-check", "--json"]
        line += ["--dangerously-bypass-approvals-and-sandbox", "-c", "analytics.enabled=false"]
        return [*line, "-c", "check_for_update_on_startup=false", "-m", "gpt-5.4", prompt]


USUAL = [agents.ClaudeCode(), Codex()]
OTHERS = [agents.GeminiCli()]
# Base URLs are what `estop run` sets.
SET_BY_ESTOP = ("OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "GOOGLE_GEMINI_BASE_URL")


class Trial:
    def __init__(self, agent, installed, binary, model, folder):
        self.agent, self.installed, self.binary, self.model, self.folder = agent, installed, binary, model, folder
        self.home, self.project = folder / "home", folder / "project"
        self.project.mkdir(parents=True)
        self.home.mkdir()

    def run(self):
        self.agent.prepare(self.home)
        estop = Estop(self.binary, self.folder, self.model.port)
        try:
            summary = self.touch("ran", [])
            run = summary["run"]
            want(self.marker("ran").exists(), "the tool did not run, though nobody objects")
            counted = (summary["exit_code"], run["state"], run["tool_calls"], summary["model_calls"] >= 2)
            want(counted == (0, "COMPLETED", 1, True), f"not counted: {summary}")
            summary = self.touch("asked", ["--limit", "max_tool_calls=1"])
            want(not self.marker("asked").exists(), "the hook did not hold the tool")
            want(summary["run"]["state"] == "ESCALATED", f"not escalated: {summary}")
            self.killed(estop)
            self.clean()
        finally:
            estop.stop()

    def touch(self, name, options):
        """Has the model ask once for a command that makes a file."""
        call = {"name": self.agent.tool, "arguments": self.agent.arguments(f"touch {self.marker(name)}")}
        match = {"path": self.agent.path, "contains": getattr(self.agent, "contains", None)}
        self.model.reset()
        self.model.script([{"match": match, "times": 1, "reply": {"text": "I make a file.", "tool_calls": [call]}}])
        done = self.start(options)
        _, said = done.communicate(timeout=TIMEOUT_S)
        summary = self.folder / "summary.json"
        want(summary.exists(), f"no summary: {said[-500:]}")
        return json.loads(summary.read_text())

    def killed(self, estop):
        self.model.reset()
        self.model.script([{"reply": {"text": "late", "delay": {"headers_ms": 600_000}}}])
        process = self.start([])
        deadline = time.monotonic() + TIMEOUT_S
        while not self.model.seen()["requests"]:
            want(time.monotonic() < deadline and process.poll() is None, "it asks no model")
            time.sleep(0.05)
        estop.command("kill")
        _, said = process.communicate(timeout=TIMEOUT_S)
        want("the program was ended" in said, f"it was not ended: {process.returncode} {said[-500:]}")

    def clean(self):
        for path in self.home.rglob("*"):
            if path.is_file() and path.suffix in (".json", ".toml", ".js") and "node_modules" not in path.parts:
                text = path.read_text(errors="replace")
                want(" hook " not in text or "estop" not in text, f"{path} was changed")

    def start(self, options):
        line = [str(self.binary), "run", "--config", str(self.folder / "estop.yaml"), "--agent", "real"]
        line += ["--summary", str(self.folder / "summary.json"), *options, "--"]
        line += [str(word) for word in self.agent.launch(self.installed, "", PROMPT)]
        folders = [str(folder) for folder in self.agent.folders(self.installed)]
        variables = {name: value for name, value in self.agent.variables("").items() if name not in SET_BY_ESTOP}
        keys = {"OPENAI_API_KEY": "test", "GEMINI_API_KEY": "test", "ANTHROPIC_API_KEY": "test"}
        env = {"PATH": ":".join([*folders, os.environ["PATH"]]), "HOME": str(self.home), "IS_SANDBOX": "1"}
        env |= {"TERM": os.environ.get("TERM", "dumb"), **keys, **variables}
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(line, env=env, cwd=self.project, text=True, **streams)

    def marker(self, name):
        return self.folder / f"marker-{name}"


def want(holds, otherwise):
    if not holds:
        raise Wrong(otherwise)


class Model(FakeModel):
    """The fake model, told what to answer."""

    def script(self, rules):
        import urllib.request

        url = f"http://127.0.0.1:{self.port}/_script"
        body = json.dumps(rules).encode()
        request = urllib.request.Request(url, body, {"content-type": "application/json"})
        urllib.request.urlopen(request, timeout=10).read()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--all", action="store_true", help="Gemini CLI, too")
    options = parser.parse_args()
    binaries = options.binaries.resolve()
    chosen = USUAL + OTHERS if options.all else USUAL
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(os.environ.get("ESTOP_CLIENTS_CACHE") or pathlib.Path(cache) / "estop-clients")
    installed = install([agent.env for agent in chosen], cache)
    cut_network()
    # Not below /tmp: Gemini CLI reads no settings from where all can write.
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-run-", dir=cache.parent))
    model = Model(binaries / "estop-fake-model", folder)
    failed = 0
    try:
        for agent in chosen:
            begun = time.monotonic()
            try:
                Trial(agent, installed, binaries / "estop", model, folder / agent.name).run()
                print(f"{agent.name}: runs, asked, killed, clean; {time.monotonic() - begun:.0f} s", flush=True)
            except Wrong as wrong:
                failed += 1
                print(f"{agent.name}: FAILED: {wrong}", flush=True)
    finally:
        model.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
