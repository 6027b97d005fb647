#!/usr/bin/env python3
"""Real coding agents with estop's hooks: Claude Code, Codex and Gemini CLI, put under estop by `estop install`.

Usage: tests/hooks/run.py [--binaries FOLDER] [--only NAME…] [--fast|--all] [--keep]   (needs estop and estop-fake-model)

Each client runs unmodified in an empty home against the fake model. Seen for each:

  runs        with estop up, a tool runs (else nothing below would mean anything)
  denied      with the tools channel killed, the same tool does not run: the file it would make is not there
  warned      at 80 % of a limit the warning stands in the model's next request
  stopped     at the limit the tool is refused; the model is asked at most three times more, and the person finds the
              agent's last words in /api/escalations
  down        without estop the tool is refused, inside and outside of a run: what `estop install` writes unless it is told otherwise
  given back  `estop uninstall` leaves the client's files as they were, byte for byte

Clients come from tests/clients (installed once, into ESTOP_CLIENTS_CACHE); after that nothing needs the network.
"""

import argparse
import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT / "tests" / "clients"), str(ROOT / "tests"), str(HERE)]
from agents import AGENTS, OTHERS  # noqa: E402
from daemon import journal_is_whole  # noqa: E402
from estop import Estop, Wrong  # noqa: E402
from install import install  # noqa: E402
from process import adopt_orphans, run_bounded  # noqa: E402
from run import cut_network  # noqa: E402
from servers import FakeModel  # noqa: E402

STEPS = ["runs", "denied", "warned", "stopped", "down", "given back"]
LIMIT = 5
# What seed 3 allows after a trip: a model may sum up, not go on.
FURTHER_REQUESTS_MAX = 3
PROMPT = "Please begin."
BRANCH = "fix/login"


class Trial:
    """One client, from install to uninstall."""

    def __init__(self, agent, installed, binaries, model, folder):
        self.agent = agent
        self.installed = installed
        self.binary = binaries / "estop"
        self.model = model
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "project"
        self.project.mkdir(parents=True)
        (self.project / ".git").mkdir()
        (self.project / ".git" / "HEAD").write_text(f"ref: refs/heads/{BRANCH}\n")
        self.results = {}

    def run(self):
        self.agent.prepare(self.home)
        # At its first start a client writes into its settings: what it wrote is not ours to give back.
        self.model.reset()
        self.start(f"http://127.0.0.1:{self.model.port}", {})
        before = self.files()
        with contextlib.ExitStack() as at_end:
            estop = Estop(self.binary, self.folder, self.model.port)
            at_end.callback(estop.stop)
            self.command("install", "--agent", "hooked", "--data-dir", str(estop.data))
            self.step("runs", self.check_runs, estop)
            self.step("denied", self.check_denied, estop)
            seen = self.step("warned", self.check_warned, estop)
            self.step("stopped", self.check_stopped, estop, seen)
        if not journal_is_whole(self.binary, self.folder):
            self.results["stopped"] = "the journal is not whole"
        self.step("down", self.check_down)
        self.step("given back", self.check_given_back, before)
        return self.results

    def step(self, name, check, *args):
        try:
            answer = check(*args)
            self.results[name] = "ok"
            return answer
        except Wrong as wrong:
            self.results[name] = str(wrong)
            print(f"    {self.agent.name}, {name}: {wrong}", file=sys.stderr, flush=True)

    def check_runs(self, estop):
        self.touch("ran", estop.base(self.agent.provider, agent="hooked"))
        self.want(self.marker("ran").exists(), "the tool did not run, though nobody objects")
        runs = estop.get("/api/runs?agent=hooked")["runs"]
        named = [run for run in runs if (run["run"] or "").startswith(f"{self.agent.name}-")]
        self.want(named, f"no run of its session: {[run['run'] for run in runs]}")
        self.want(named[0]["branch"] == BRANCH and named[0]["session"], f"its run knows not where: {named[0]}")

    def check_denied(self, estop):
        estop.command("kill", "--channel", "tools")
        ended = self.touch("denied", estop.base(self.agent.provider, agent="hooked"))
        self.want(not self.marker("denied").exists(), "the tool ran")
        # Some end at once, some tell the model: either way the reason is somewhere.
        self.want_told("Stopped by estop", ended)
        estop.command("emergency", "clear")

    def check_warned(self, estop):
        """Works on past a limit under a supervisor's ticket; the fake model never stops asking for tools."""
        line = estop.begin("limited", limits={"max_tool_calls": LIMIT}, branch=BRANCH)
        calls = [self.call(f"echo {n} >> calls.txt", f"I am at step {n}.") for n in range(1, LIMIT + 20)]
        self.script(calls)
        ended = self.start(estop.base(self.agent.provider, ticket=line.ticket), line.environment)
        requests = self.requests()
        warned = [n for n, request in enumerate(requests, 1) if "Approaching limit" in request["body"]]
        self.want(warned and warned[0] == LIMIT, f"the warning is in requests {warned}, not first in {LIMIT}")
        return line, ended, requests

    def check_stopped(self, estop, seen):
        self.want(seen, "was not warned")
        line, ended, requests = seen
        done = (self.project / "calls.txt").read_text().split()
        wanted = [str(n) for n in range(1, LIMIT)]
        self.want(done == wanted, f"calls that ran: {done}")
        further = len(requests) - LIMIT
        self.want(further <= FURTHER_REQUESTS_MAX, f"{further} requests after the limit")
        self.want(ended.exit is not None, "it does not end")
        line.complete()
        found = estop.wait_for("/api/escalations", "escalations", lambda case: case["run"] == line.run)
        self.want("I am at step" in (found.get("summary") or ""), f"no last words: {found}")
        self.want(found.get("branch") == BRANCH, f"no branch: {found}")
        self.further = further

    def check_down(self):
        ended = self.touch("outside", f"http://127.0.0.1:{self.model.port}")
        self.want(not self.marker("outside").exists(), "outside of a run the tool ran")
        self.want_told("estop is not running", ended)
        ended = self.touch("inside", f"http://127.0.0.1:{self.model.port}", {"ESTOP_RUN": "r1"})
        self.want(not self.marker("inside").exists(), "inside a run the tool ran")
        self.want_told("estop is not running", ended)

    def check_given_back(self, before):
        self.command("uninstall")
        after = self.files()
        changed = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
        self.want(not changed, f"not as before: {', '.join(changed)}")

    # What the checks are made of.

    def touch(self, name, base, more=None):
        """Has the model ask once for a command that makes a file."""
        self.script([self.call(f"touch {self.marker(name)}", "I make a file.")])
        return self.start(base, more or {})

    def marker(self, name):
        return self.folder / f"marker-{name}"

    def call(self, command, text):
        call = {"name": self.agent.tool, "arguments": self.agent.arguments(command)}
        match = {"path": self.agent.path, "contains": getattr(self.agent, "contains", None)}
        return {"match": match, "times": 1, "reply": {"text": text, "tool_calls": [call]}}

    def script(self, rules):
        self.model.reset()
        self.model.script(rules)

    def start(self, base, more):
        environment = {**self.environment(), **self.agent.variables(base), **more}
        for line in getattr(self.agent, "first", lambda *_: [])(self.installed, base, self.home):
            run_bounded(line, environment, self.project, self.agent.timeout_s)
        line = self.agent.launch(self.installed, base, PROMPT)
        return run_bounded(line, environment, self.project, self.agent.timeout_s)

    def environment(self):
        folders = [str(folder) for folder in self.agent.folders(self.installed)]
        path = ":".join([*folders, os.environ["PATH"]])
        kept = {name: os.environ[name] for name in ("LANG", "TERM") if name in os.environ}
        return {**kept, "PATH": path, "HOME": str(self.home), "IS_SANDBOX": "1"}

    def requests(self):
        """Requests of the conversation, without those for titles and routes."""
        contains = getattr(self.agent, "contains", "")
        asked = self.model.seen()["requests"]
        return [seen for seen in asked if self.agent.path in seen["path"] and contains in seen["body"]]

    def bodies(self):
        return "".join(request["body"] for request in self.requests())

    def command(self, what, *options):
        line = [str(self.binary), what, self.agent.name, *options]
        done = subprocess.run(line, cwd=self.project, env=self.environment(), capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{' '.join(line)}: {done.returncode}\n{done.stdout}{done.stderr}")

    def files(self):
        """The client's settings, with what they hold."""
        paths = [self.home / name for name in self.agent.settings]
        copies = [path.with_name(path.name + ".estop-backup") for path in paths]
        return {str(path): path.read_bytes() for path in [*paths, *copies] if path.exists()}

    def want_told(self, words, ended):
        """The person or the model reads why; Cline ends its run and shows nobody."""
        is_told = words in ended.output + self.bodies()
        self.want(is_told or not getattr(self.agent, "tells", True), f"nobody is told why: {ended.output[-500:]}")

    def want(self, holds, otherwise):
        if not holds:
            raise Wrong(otherwise)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[agent.name for agent in AGENTS + OTHERS])
    parser.add_argument("--fast", action="store_true", help="Claude Code only")
    parser.add_argument("--all", action="store_true", help="Copilot, Qwen Code, opencode and Cline, too")
    parser.add_argument("--keep", action="store_true", help="keep the folders of the run, and say where")
    options = parser.parse_args()
    binaries = options.binaries.resolve()
    usual = AGENTS[:1] if options.fast else AGENTS + OTHERS if options.all else AGENTS
    chosen = [agent for agent in AGENTS + OTHERS if agent.name in options.only] if options.only else usual
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(os.environ.get("ESTOP_CLIENTS_CACHE") or pathlib.Path(cache) / "estop-clients")
    installed = install([agent.env for agent in chosen], cache)
    cut_network()
    adopt_orphans()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-hooks-"))
    model = Model(binaries / "estop-fake-model", folder)
    failed = []
    started = time.monotonic()
    try:
        print(f"{'client':14}" + "".join(f"{name:>12}" for name in STEPS) + "   further requests      s")
        for agent in chosen:
            begun = time.monotonic()
            trial = Trial(agent, installed, binaries, model, folder / agent.name)
            results = trial.run()
            shown = "".join(f"{'ok' if results.get(name) == 'ok' else 'NO':>12}" for name in STEPS)
            further = getattr(trial, "further", "?")
            print(f"{agent.name:14}{shown}{further:>19}{time.monotonic() - begun:>7.0f}", flush=True)
            if any(results.get(name) != "ok" for name in STEPS):
                failed.append(agent.name)
    finally:
        model.stop()
        if options.keep:
            print(f"kept: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    verdict = f"misbehaved: {', '.join(failed)}" if failed else "all as they should be"
    print(f"{len(chosen)} clients, {verdict}, {time.monotonic() - started:.0f} s")
    return 1 if failed else 0


class Model(FakeModel):
    """The fake model, told what to answer."""

    def script(self, rules):
        import json
        import urllib.request

        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}/_script",
            json.dumps(rules).encode(),
            {"content-type": "application/json"},
        )
        urllib.request.urlopen(request, timeout=10).read()


if __name__ == "__main__":
    sys.exit(main())
