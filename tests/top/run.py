#!/usr/bin/env python3
"""`estop top` in tmux, by somebody who types: what it shows, what its keys do, and how it leaves the terminal (UI-2).

Usage: tests/top/run.py [--binaries DIR] [NAME…]   (needs tmux and a built estop and estop-fake-model)
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))

from daemon import OwnerConnection

# No screen takes this long; whoever waits longer waits for ever.
PATIENCE_S = 20
SIZES = ((80, 24), (120, 40))


class House:
    """A fake model, estop before it, and three agents: one loops and is stopped, two work."""

    def __init__(self, binaries, folder):
        self.estop, self.folder, self.processes = binaries / "estop", folder, []
        model = self.start([binaries / "estop-fake-model"], "model.log", r"listening on (\S+)")
        config = {
            "listen": {"data": "127.0.0.1:0", "admin": "127.0.0.1:0"},
            "providers": {"openai": {"base_url": model}},
            "policy": {"kill_switch_enabled": True},
        }
        (folder / "estop.yaml").write_text(json.dumps(config))
        serve = [self.estop, "serve", "--config", "estop.yaml", "--data-dir", "data"]
        self.data = self.start(serve, "estop.log", r"listening on http://(\S+)")
        until(lambda: (folder / "data" / "estop.sock").exists(), "the owner's socket")
        for agent, texts in (("coder", ["Write a parser."]), ("tester", ["Test it."]), ("stuck", ["Is the build done?"] * 30)):
            for text in texts:
                if self.ask(agent, text) != 200:
                    break

    def start(self, command, log, pattern):
        path = self.folder / log
        process = subprocess.Popen([str(part) for part in command], cwd=self.folder, stdout=path.open("wb"), stderr=subprocess.STDOUT)
        self.processes.append(process)

        def said():
            if process.poll() is not None:
                raise AssertionError(f"{log}: {path.read_text()}")
            found = re.search(pattern, path.read_text())
            return found and found.group(1)
        return until(said, f"{log} says {pattern}")

    def ask(self, agent, text):
        connection = http.client.HTTPConnection(self.data, timeout=PATIENCE_S)
        body = json.dumps({"model": "fake", "messages": [{"role": "user", "content": text}]})
        connection.request("POST", f"/agents/{agent}/openai/v1/chat/completions", body, {"content-type": "application/json"})
        return connection.getresponse().status

    def api(self, method, path):
        connection = OwnerConnection(self.folder / "data" / "estop.sock", PATIENCE_S)
        connection.request(method, path)
        return json.loads(connection.getresponse().read())

    def close(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()


class Terminal:
    """A shell in tmux in which `estop top` is started."""

    opened = 0

    def __init__(self, house, **more):
        Terminal.opened += 1
        self.name, self.house = f"estop-top-{os.getpid()}-{Terminal.opened}", house
        env = {**os.environ, "HOME": str(house.folder), "TERM": "screen-256color"}
        for variable in ("TMUX", "ESTOP_URL", "ESTOP_TOKEN", "NO_COLOR"):
            env.pop(variable, None)
        env.update(more)
        (house.folder / "rc").write_text(f"PS1='READY> '\ntop() {{ {house.estop} top --data-dir data; }}\n")
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", "exec bash --noprofile --rcfile rc -i", env=env)
        self.see(r"^READY>$")
        self.before = self.stty("before")

    def tmux(self, *words, env=None):
        line = ["tmux", "-L", self.name, *words]
        done = subprocess.run(line, cwd=self.house.folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(line)}: {done.stderr}")
        return done.stdout

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def line(self, text):
        self.keys("-l", text)
        self.keys("Enter")

    def stty(self, name):
        """All settings of the terminal."""
        self.line(f"stty -a > {name}; clear")
        self.see(r"\AREADY>\s*\Z")
        return re.sub(r"rows \d+; columns \d+;", "", (self.house.folder / name).read_text())

    def top(self):
        self.line("top; echo code-$?")
        self.see(r"K stop all")
        return self

    def drawn(self):
        """The screen with its escape sequences: colours, bold, reversed."""
        return self.tmux("capture-pane", "-p", "-e")

    def screen(self):
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p").rstrip("\n").split("\n"))

    def see(self, pattern):
        def seen():
            return re.search(pattern, self.screen(), re.M)
        try:
            return until(seen, pattern)
        except AssertionError:
            raise AssertionError(f"not on the screen: {pattern}\n{self.screen()}") from None

    def row(self, agent):
        return self.see(rf"^ ?{agent}\b.*$").group(0)

    def choose(self, agent):
        """Moves to an agent, whichever row it is in: up to the first, then down."""
        order = re.findall(r"^ ?(coder|default|stuck|tester)\b", self.screen(), re.M)
        for _ in order:
            self.keys("Up")
        for _ in range(order.index(agent)):
            self.keys("Down")

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def is_as_before(self):
        """One screen, the prompt, and the same settings."""
        until(lambda: self.tmux("display-message", "-p", "#{alternate_on}").strip() == "0", "one screen")
        assert self.tmux("display-message", "-p", "#{cursor_flag}").strip() == "1", "the cursor is back"
        assert self.stty("after") == self.before

    def close(self):
        subprocess.run(["tmux", "-L", self.name, "kill-server"], capture_output=True)


def until(found, what):
    end = time.monotonic() + PATIENCE_S
    while True:
        value = found()
        if value:
            return value
        if time.monotonic() > end:
            raise AssertionError(f"not within {PATIENCE_S} s: {what}")
        time.sleep(0.02)


def shows_every_agent_the_stopped_first(t):
    t.top()
    t.see(r"RUNNING .*models open .*tools open .*messages open")
    t.see(r"^ ?AGENT +STATE +WHY +REQS +TODAY")
    order = re.findall(r"^ ?(coder|stuck|tester)\b", t.screen(), re.M)
    assert order[0] == "stuck" and sorted(order[1:]) == ["coder", "tester"], order
    assert re.search(r"stopped +Loop", t.row("stuck")), t.screen()
    # The fake model's answers are as long as they are: the gate, which only watches, may have something to say.
    assert re.search(r"active|watched", t.row("coder")), t.screen()
    t.see(r"2 of 3 agents running · 1 stopped")
    t.see(r"1 open incident\b")
    t.see(r"EVENTS \(UTC")
    t.see(r"^\d\d:\d\d:\d\d  stuck +kill switch")
    t.keys("q")
    t.see(r"code-0")
    t.is_as_before()


def shows_the_same_state_as_the_api(t):
    """EV-2: kind, reason and end of each agent's state are those of the API."""
    t.top()
    agents = t.house.api("GET", "/api/agents")["agents"]
    assert len(agents) >= 3, agents
    for agent in agents:
        state = agent["state"]
        t.choose(agent["id"])
        t.keys("Enter")
        t.see(rf"^AGENT {agent['id']}  {state['kind'].replace('_', ' ')}$")
        t.see(rf"^{re.escape(state['label'])}$")
        shown = " ".join(t.screen().split())
        assert " ".join(state["sentence"].split()) in shown, f"{state}\n{t.screen()}"
        t.keys("Escape")
        t.see(r"^ ?AGENT +STATE")
    t.keys("q")
    t.is_as_before()


def enter_shows_an_agent_and_escape_goes_back(t):
    t.top()
    t.choose("stuck")
    t.keys("Enter")
    t.see(r"^OPEN INCIDENTS$")
    t.see(r"^\d{4}-\d\d-\d\d .* +Loop")
    for _ in range(40):
        t.keys("Down")
    t.see(r"^\d\d:\d\d:\d\d  kill switch")
    t.see(r"^RUNS")
    t.keys("Escape")
    t.see(r"^ ?AGENT +STATE")
    t.keys("Escape")
    time.sleep(0.3)
    t.see(r"^ ?AGENT +STATE")
    t.keys("q")
    t.is_as_before()


def filters_agents_by_name_and_state(t):
    t.top()
    t.keys("-l", "/test")
    t.see(r"Filter by name or state: /test_")
    until(lambda: not re.search(r"^ ?stuck", t.screen(), re.M), "stuck is filtered away")
    t.row("tester")
    t.keys("Enter")
    t.keys("-l", "s")
    t.see(r"Stop agent tester\?")
    t.keys("n")
    t.keys("Escape")
    t.row("stuck")
    t.keys("-l", "/nobody")
    t.see(r"No agent matches /nobody\. Esc shows all\.")
    t.keys("Escape")
    t.row("stuck")
    t.keys("q")
    t.is_as_before()


def help_lists_the_keys_and_any_key_closes_it(t):
    t.top()
    t.keys("?")
    t.see(r"Any key closes this\.")
    t.see(r"filter agents by name or state")
    t.keys("K")
    until(lambda: "Any key closes this" not in t.screen(), "the help is gone")
    assert "EVERYTHING" not in t.screen(), t.screen()
    t.keys("e")
    until(lambda: "EVENTS (UTC" not in t.screen(), "the events are hidden")
    t.keys("q")
    t.is_as_before()


def colours_are_readable_on_light_and_dark_and_off_with_no_color(t):
    t.top()
    t.row("stuck")
    # Red, and on the dark or light ground of the terminal neither green, yellow nor cyan: those are pale on white.
    used = set(re.findall(r"(?:38;5;\d+|\b3[0-7]\b)", t.drawn()))
    assert used & {"31", "38;5;1", "38;5;9"}, used
    assert not used & {f"{before}{color}" for before in ("3", "38;5;") for color in (2, 3, 6)}, used
    t.keys("q")
    t.is_as_before()
    t.close()
    plain = Terminal(t.house, NO_COLOR="1")
    try:
        plain.top()
        plain.row("stuck")
        codes = {code for codes in re.findall(r"\x1b\[([\d;]*)m", plain.drawn()) for code in codes.split(";") if code}
        assert not [code for code in codes if 30 <= int(code) <= 47 and code != "39"], codes
        assert "7" in codes, "the state is a badge, the chosen row is marked"
        plain.keys("q")
        plain.is_as_before()
    finally:
        plain.close()


def state_does_not_flicker(t):
    """Nothing happens, so nothing changes: twenty looks, four of them of estop's own."""
    t.resize(120, 30)
    t.top()
    first = t.row("stuck")
    t.see(r"IDLE|idle|working")
    words = lambda: re.sub(r"\b(idle|working)\b", "", t.screen())
    before = words()
    for _ in range(20):
        time.sleep(0.1)
        assert words() == before, f"{before}\n---\n{words()}"
    assert t.row("stuck") == first
    t.keys("q")
    t.is_as_before()


def is_drawn_anew_at_any_size(t):
    t.top()
    for columns, rows in (*SIZES[::-1], *SIZES[::-1]):
        t.resize(columns, rows)

        def fits():
            lines = t.screen().split("\n")
            head = next((line for line in lines if "AGENT" in line and "TODAY" in line), "")
            # The last column ends at the right edge, the keys stand in the last line.
            return len(lines) == rows and "q quit" in lines[-1] and columns - 10 <= len(head) <= columns
        until(fits, f"drawn at {columns} by {rows}:\n{t.screen()}")
        assert t.screen().count("AGENT") == 1 and t.screen().count("q quit") == 1, t.screen()
        t.row("coder")
    t.resize(80, 24)
    t.keys("q")
    t.is_as_before()


def stops_one_agent_only_after_a_yes(t):
    t.top()
    t.choose("coder")
    t.keys("s")
    t.see(r"Stop agent coder\?")
    t.keys("n")
    until(lambda: "Stop agent" not in t.screen(), "the question is gone")
    assert t.house.api("GET", "/api/agents/coder")["active"] is True
    t.keys("s")
    t.see(r"Stop agent coder\?")
    t.keys("y")
    t.see(r"^ ?coder +stopped +\S")
    agent = t.house.api("GET", "/api/agents/coder")
    assert (agent["active"], agent["deactivated_by"]) == (False, "manual"), agent
    assert t.house.ask("coder", "Go on.") != 200 and t.house.ask("tester", "Go on.") == 200
    t.choose("coder")
    t.keys("a")
    t.see(r"Reactivate agent coder\?")
    t.keys("y")
    t.see(r"^ ?coder +active")
    t.keys("q")
    t.is_as_before()


def ctrl_c_leaves_the_terminal_as_it_was(t):
    t.top()
    t.keys("C-c")
    t.see(r"code-0")
    t.is_as_before()


def says_when_estop_does_not_answer(t):
    """Last but one: what was seen stays, and says how old it is."""
    t.top()
    daemon = t.house.processes[-1]
    daemon.send_signal(19)
    try:
        t.see(r"NO ANSWER, this is what was last seen")
        t.row("stuck")
    finally:
        daemon.send_signal(18)
    until(lambda: "NO ANSWER" not in t.screen(), "it goes on by itself")
    t.keys("q")
    t.is_as_before()


def stops_everything_only_after_a_yes(t):
    """Last: the button stays pressed."""
    t.top()
    t.keys("K")
    t.see(r"Stop EVERYTHING\?")
    t.keys("Escape")
    until(lambda: "EVERYTHING" not in t.screen(), "the question is gone")
    assert t.house.api("GET", "/api/emergency/status")["state"] == "running"
    t.keys("K")
    t.see(r"Stop EVERYTHING\?")
    t.keys("y")
    t.see(r"Everything is stopped \(0 model calls, 0 tools, 0 messages ended\)\. Saved\.")
    t.see(r"SHUTDOWN .*models SHUT")
    t.see(r"^0 of 3 agents running · 3 shut")
    t.see(r"^Since .* by ")
    until(lambda: all("shut" in t.row(agent) for agent in ("coder", "stuck", "tester")), "every agent is shown as shut")
    assert t.house.api("GET", "/api/emergency/status")["state"] == "shutdown"
    assert t.house.ask("tester", "Go on.") != 200
    t.keys("q")
    t.is_as_before()


ALL = [
    shows_every_agent_the_stopped_first,
    shows_the_same_state_as_the_api,
    enter_shows_an_agent_and_escape_goes_back,
    filters_agents_by_name_and_state,
    help_lists_the_keys_and_any_key_closes_it,
    colours_are_readable_on_light_and_dark_and_off_with_no_color,
    state_does_not_flicker,
    is_drawn_anew_at_any_size,
    stops_one_agent_only_after_a_yes,
    ctrl_c_leaves_the_terminal_as_it_was,
    says_when_estop_does_not_answer,
    stops_everything_only_after_a_yes,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="estop-top-") as name:
        house = House(args.binaries.resolve(), pathlib.Path(name))
        try:
            for scenario in [one for one in ALL if not args.names or one.__name__ in args.names]:
                terminal = Terminal(house)
                started = time.monotonic()
                try:
                    scenario(terminal)
                    print(f"{scenario.__name__}: fine, {time.monotonic() - started:.1f} s", flush=True)
                except AssertionError as error:
                    failed += 1
                    print(f"{scenario.__name__}: FAILED: {error}", flush=True)
                finally:
                    terminal.close()
        finally:
            house.close()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
