#!/usr/bin/env python3
"""Tries the packages of clients/ on a real estop: their own tests, their types, and their examples (TL-1).

Usage: tests/packages/run.py [--binaries FOLDER]   (needs a built estop and estop-fake-model)

The examples run with the real frameworks, in the versions of tests/clients/envs, against the fake model: once to the end,
and once in a loop that a circuit breaker stops. What cannot be installed (no network?) is skipped and said.
"""

import argparse
import contextlib
import hashlib
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
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
PYTHON, NODE = ROOT / "clients" / "python", ROOT / "clients" / "node"
sys.dont_write_bytecode = True
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tests" / "clients"), str(PYTHON / "src")]
from daemon import OwnerConnection, journal_is_whole  # noqa: E402
from estop_client import Estop, RunEnded  # noqa: E402
import install  # noqa: E402

WITHIN_S = 120
# The call that reaches it is denied; the packages' own tests know the number.
TOOL_CALLS_MAX = 5
EXAMPLES = [
    ("langgraph", "example-langgraph", "py-frameworks", PYTHON / "examples" / "langgraph_tools.py"),
    ("openai-agents", "example-agents", "py-agents", PYTHON / "examples" / "openai_agents_tools.py"),
    ("vercel", "example-vercel", "node-vercel", NODE / "examples" / "vercel-ai-tools.mjs"),
]


def cache(name):
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    return pathlib.Path(os.environ.get(f"ESTOP_{name.upper()}_CACHE") or base / f"estop-{name}")


def frameworks():
    """The frameworks of the examples; `None` if they cannot be got."""
    try:
        return install.install([env for _, _, env, _ in EXAMPLES], cache("clients"))
    except SystemExit as error:
        print(error)
        return None


def typescript():
    """A folder with the compiler that package.json names; `None` if it cannot be got."""
    wanted = json.loads((NODE / "package.json").read_text())["devDependencies"]
    spec = json.dumps({"private": True, "dependencies": wanted})
    folder = cache("tools") / f"typescript-{hashlib.sha256(spec.encode()).hexdigest()[:8]}"
    if not (folder / "installed").exists():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(spec)
        line = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        if subprocess.run(line, cwd=folder).returncode != 0:
            return None
        (folder / "installed").touch()
    return folder / "node_modules"


class Servers:
    """The fake model, and estop before it with a breaker of few tool calls."""

    def __init__(self, binaries, folder):
        self.folder, self.log, self.key = folder, [], f"estop-key-{secrets.token_hex(16)}"
        self.model = subprocess.Popen([binaries / "estop-fake-model"], stdout=subprocess.PIPE, text=True)
        model = re.search(r"http://\S+", self.model.stdout.readline()).group(0)
        config = {
            "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"},
            "providers": {"openai": {"base_url": model}},
            "circuit_breakers": {"defaults": {"max_tool_calls": TOOL_CALLS_MAX}},
            "agents": {"python": {}, "node": {}, "keyed": {"key_env": "KEYED_KEY"}},
            "unknown_agents": "allow",
        }
        # JSON is YAML.
        (folder / "estop.yaml").write_text(json.dumps(config))
        self.estop = subprocess.Popen(
            [binaries / "estop", "serve", "--config", "estop.yaml", "--data-dir", "data"], cwd=folder, text=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=dict(os.environ, KEYED_KEY=self.key),
        )
        self.data = self.said(r"listening on (\S+)")
        self.admin = self.said(r"Admin API: (\S+)/api/docs")
        self.socket = folder / "data" / "estop.sock"
        self.reader = threading.Thread(target=lambda: self.log.extend(self.estop.stdout), daemon=True)
        self.reader.start()

    def said(self, pattern):
        for line in self.estop.stdout:
            self.log.append(line)
            if found := re.search(pattern, line):
                return found.group(1)
        sys.exit(f"estop ended before it said {pattern}:\n{''.join(self.log)}")

    def run(self, agent, run):
        """The run as the API shows it."""
        connection = OwnerConnection(self.socket, WITHIN_S)
        with contextlib.closing(connection):
            connection.request("GET", f"/api/runs/{agent}:{run}")
            return json.loads(connection.getresponse().read())

    def environment(self, **more):
        """Nothing of this machine's own estop."""
        plain = {name: value for name, value in os.environ.items() if not name.startswith("ESTOP_")}
        base = self.data if self.data.startswith("http") else f"http://{self.data}"
        return dict(
            plain, PYTHONDONTWRITEBYTECODE="1", NO_PROXY="127.0.0.1", ESTOP_SOCKET=str(self.socket),
            OPENAI_BASE_URL=f"{base}/openai/v1", OPENAI_API_KEY="none", **more,
        )

    def end(self):
        """Ends estop as a service manager would, which lets it close its journal."""
        self.estop.send_signal(signal.SIGTERM)
        fine = self.estop.wait(WITHIN_S) == 0
        self.reader.join(WITHIN_S)
        return fine

    def kill(self):
        for process in (self.estop, self.model):
            process.kill()
            process.wait()


def own_tests(servers, node):
    """The packages' own tests, the parts with a real estop included."""
    more = {"ESTOP_TEST_SOCKET": str(servers.socket), "ESTOP_TEST_URL": servers.admin, "ESTOP_TEST_KEY": servers.key}
    environment = servers.environment(PYTHONPATH=str(PYTHON / "src"), **more)
    lines = {
        "Python package": ([sys.executable, "-m", "unittest"], PYTHON / "tests"),
        "Node package": ([node, "--test", "--test-reporter=tap", *sorted(str(file) for file in (NODE / "test").glob("*.test.js"))], NODE),
    }
    fine = True
    for name, (line, folder) in lines.items():
        done = subprocess.run(line, cwd=folder, env=environment, capture_output=True, text=True, timeout=WITHIN_S)
        said = done.stdout + done.stderr
        # A part that was left out unseen would prove nothing.
        left_out = re.search(r"skipped=[1-9]|^# skipped [1-9]", said, re.MULTILINE)
        count = re.search(r"Ran (\d+) tests|^# tests (\d+)", said, re.MULTILINE)
        passed = done.returncode == 0 and count is not None and not left_out
        print(f"{name}: {(count.group(1) or count.group(2)) if count else 0} tests, {'fine' if passed else 'FAILED'}")
        if not passed:
            print(said[-6000:])
        fine &= passed
    return fine


def types_hold(node):
    modules = typescript()
    if modules is None:
        print("Node package: types skipped, TypeScript cannot be installed here")
        return True
    line = [node, modules / "typescript" / "bin" / "tsc", "--project", NODE, "--typeRoots", modules / "@types"]
    done = subprocess.run(line, capture_output=True, text=True, timeout=WITHIN_S)
    print("Node package: types", "fine" if done.returncode == 0 else f"FAILED\n{done.stdout}{done.stderr}")
    return done.returncode == 0


def examples_hold(servers, installed, folder):
    fine = True
    for agent, run, env, file in EXAMPLES:
        wrong = list(problems(servers, agent, run, command(installed, env, file, folder)))
        print(f"example {file.name}:", "fine" if not wrong else "FAILED\n  " + "\n  ".join(wrong))
        fine &= not wrong
    return fine


def problems(servers, agent, run, line):
    """What does not hold: an example that works to its end, and the same one in a loop."""
    environment = servers.environment(PYTHONPATH=str(PYTHON / "src"))
    for prompt, ran, word, state in [
        ("Use a tool, please.", 1, "answer: tool said: sun in ", "COMPLETED"),
        ("loop forever with your tool", TOOL_CALLS_MAX - 1, "stopped: ", "ESCALATED"),
    ]:
        done = subprocess.run([*line, prompt], env=environment, capture_output=True, text=True, timeout=WITHIN_S)
        calls = done.stdout.count("weather ran")
        if done.returncode != 0 or calls != ran or word not in done.stdout:
            yield f"{prompt!r}: exit {done.returncode}, the tool ran {calls} times of {ran}\n{done.stdout}{done.stderr}"
            continue
        # Counted is what was let through; the denial has the number it would have been.
        shown = servers.run(agent, run)
        if (shown.get("state"), shown.get("tool_calls"), shown.get("turns")) != (state, ran, 1):
            yield f"{prompt!r}: not {state} with {ran} tool calls and 1 turn, but {shown}"
        if state == "ESCALATED" and f"{TOOL_CALLS_MAX}/{TOOL_CALLS_MAX}" not in done.stdout:
            yield f"the denial names no limit: {done.stdout}"


def supervised_programs_are_bound(servers, estop, node):
    """Whether under `estop run` both packages find estop and their run, and its limits hold for them (TL-2)."""
    ask = "run.{}('note', {{}})"
    python = "from estop_client import Estop; run = Estop(agent='else', run='where'); " \
        f"print(run.run_name, *[{ask.format('pre_tool_use')}.allowed for _ in range(3)])"
    script = f"import {{ Estop }} from {json.dumps(str(NODE / 'src' / 'index.js'))}; " \
        "const run = new Estop({ agent: 'else', run: 'where' }); const said = [run.runName]; " \
        f"for (let n = 0; n < 3; n++) said.push((await {ask.format('preToolUse')}).allowed); console.log(said.join(' '))"
    programs = {"python": [sys.executable, "-c", python], "node": [node, "--input-type=module", "--eval", script]}
    environment = servers.environment(PYTHONPATH=str(PYTHON / "src"))
    del environment["ESTOP_SOCKET"]
    fine = True
    for name, program in programs.items():
        bound = ["--agent", "supervised", "--run", f"bound-{name}", "--limit", "max_tool_calls=2"]
        line = [estop, "run", "--data-dir", servers.folder / "data", *bound, "--", *program]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=WITHIN_S)
        passed = done.returncode == 0 and f"bound-{name} true false false" in done.stdout.lower()
        print(f"{name} under estop run:", "fine" if passed else f"FAILED\n{done.stdout}{done.stderr}")
        fine &= passed
    return fine


def pressed_button_ends(servers):
    """Whether a pressed button ends a run that has its tools behind estop (KS-2)."""
    connection = OwnerConnection(servers.socket, WITHIN_S)
    with contextlib.closing(connection), mock.patch.dict(os.environ, servers.environment(), clear=True):
        with Estop(agent="python").run("killed") as run:
            ran = []
            tool = run.guard(ran.append, name="note", on_denied="return")
            tool("before")
            connection.request("POST", "/api/emergency/kill", "{}", {"content-type": "application/json"})
            connection.getresponse().read()
            try:
                tool("after")
                fine = False
            except RunEnded:
                fine = ran == ["before"]
    print("a pressed button:", "fine" if fine else f"FAILED, the tool ran {ran}")
    return fine


def command(installed, env, file, folder):
    """How an example is started where its framework is installed."""
    if install.is_python(env):
        return [installed.python(env), file]
    # Node looks for modules beside the file: a folder with links to all of them, and to ours.
    modules = folder / "vercel" / "node_modules"
    modules.mkdir(parents=True)
    for module in (installed.folder(env) / "node_modules").iterdir():
        if not module.name.startswith("."):
            (modules / module.name).symlink_to(module)
    (modules / "estop-client").symlink_to(NODE)
    shutil.copy(file, modules.parent)
    return [installed.node, modules.parent / file.name]


def nothing_leaked(servers):
    """Whether the agent's key is in nothing that estop wrote or said."""
    files = (file for file in servers.folder.rglob("*") if file.is_file() and not file.is_symlink())
    written = "".join(servers.log).encode() + b"".join(file.read_bytes() for file in files)
    leaked = servers.key.encode() in written
    if leaked:
        print("the key of an agent is written down")
    return not leaked


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    binaries = parser.parse_args().binaries.resolve()
    installed = frameworks()
    node = installed.node if installed else shutil.which("node")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-packages-"))
    servers = None
    try:
        servers = Servers(binaries, folder)
        fine = own_tests(servers, node)
        fine &= types_hold(node)
        if installed:
            with tempfile.TemporaryDirectory(prefix="estop-examples-") as beside:
                fine &= examples_hold(servers, installed, pathlib.Path(beside))
        else:
            print("examples skipped: their frameworks cannot be installed here (no network?)")
        fine &= supervised_programs_are_bound(servers, binaries / "estop", node)
        fine &= pressed_button_ends(servers)
        fine &= servers.end()
        fine = journal_is_whole(binaries / "estop", folder) and fine
        fine &= nothing_leaked(servers)
    finally:
        if servers:
            servers.kill()
        shutil.rmtree(folder, ignore_errors=True)
    print("fine" if fine else "FAILED")
    sys.exit(0 if fine else 1)


if __name__ == "__main__":
    main()
