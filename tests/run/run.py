#!/usr/bin/env python3
"""Programs that take the whole terminal, run under `estop run` inside tmux by somebody who types.

Usage: tests/run/run.py [--binaries DIR] [NAME…]   (needs tmux, vim, less and top)

Seen for each: the screen shows, a resize reaches the program, Ctrl-C and Ctrl-Z do what they do without estop, and the
terminal is as it was afterwards, also after a kill.
"""

import argparse
import os
import pathlib
import re
import shlex
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
# No screen takes this long; whoever waits longer waits for ever.
PATIENCE_S = 20


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Terminal:
    """A shell in tmux."""

    opened = 0

    def __init__(self, estop, folder):
        Terminal.opened += 1
        self.name = f"estop-run-{os.getpid()}-{Terminal.opened}"
        self.folder = folder
        env = {**os.environ, "HOME": str(folder), "TERM": "screen"}
        for variable in ("TMUX", "ESTOP_URL", "ESTOP_TOKEN"):
            env.pop(variable, None)
        # Commands are short, so that none is broken over two lines.
        options = "--quiet --config estop.yaml --data-dir data --agent tty"
        run = f'r() {{ {shlex.quote(str(estop))} run {options} -- "$@"; }}'
        (folder / "rc").write_text(f"PS1='READY> '\n{run}\n")
        shell = "exec bash --noprofile --rcfile rc -i"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "80", "-y", "24", shell, env=env)
        self.see(r"^READY>$")

    def tmux(self, *words, env=None):
        line = ["tmux", "-L", self.name, *words]
        done = subprocess.run(line, cwd=self.folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S)
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(line)}: {done.stderr}")
        return done.stdout

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def command(self, line):
        """A command at a clean prompt."""
        self.type("C-l")
        self.see(r"\AREADY>\s*\Z")
        self.type("-l", line)
        self.type("Enter")

    def screen(self):
        return "\n".join(line.rstrip() for line in self.tmux("capture-pane", "-p").rstrip("\n").split("\n"))

    def see(self, pattern):
        begun = time.monotonic()
        while not re.search(pattern, self.screen(), re.M):
            if time.monotonic() - begun > PATIENCE_S:
                raise AssertionError(f"not on the screen: {pattern}\n{self.screen()}")
            time.sleep(0.02)

    def resize(self, columns, rows):
        self.tmux("resize-window", "-x", str(columns), "-y", str(rows))

    def is_as_before(self):
        """The prompt, one screen, and a terminal that echoes."""
        begun = time.monotonic()
        while self.tmux("display-message", "-p", "#{alternate_on}").strip() != "0":
            assert time.monotonic() - begun < PATIENCE_S, "the second screen is still there"
            time.sleep(0.02)
        self.command("stty -a | tr ';' '\\n' | grep -c -w -e 'isig icanon' -e '^isig.* echo '; echo sane-$((20 + 3))")
        self.see(r"sane-23$")
        self.see(r"^READY>$")

    def close(self):
        subprocess.run(["tmux", "-L", self.name, "kill-server"], capture_output=True)


def vim(t):
    t.command("r vim -u NONE -N hello.txt")
    t.see(r"^~")
    t.type("i")
    t.type("-l", "written under estop")
    t.type("Escape")
    t.resize(100, 30)
    t.type("-l", ":echo 'wide' &columns &lines")
    t.type("Enter")
    t.see(r"wide 100 30")
    t.resize(80, 24)
    # Nothing but vim hears this Ctrl-C.
    t.type("C-c")
    t.type("-l", ":wq")
    t.type("Enter")
    t.is_as_before()
    assert (t.folder / "hello.txt").read_text() == "written under estop\n"


def vim_suspended(t):
    t.command("r vim -u NONE -N other.txt")
    t.see(r"^~")
    t.type("C-z")
    t.see(r"Stopped")
    t.command("jobs; echo between-$((1 + 1))")
    t.see(r"between-2$")
    t.type("-l", "fg")
    t.type("Enter")
    t.see(r"^~")
    t.type("-l", ":q")
    t.type("Enter")
    t.is_as_before()


def less(t):
    t.command("seq 1000 > n.txt; r less n.txt")
    t.see(r"^23$")
    t.type("G")
    t.see(r"^1000$")
    t.resize(80, 40)
    t.see(r"^~$")
    t.resize(80, 24)
    t.type("q")
    t.is_as_before()


def less_in_a_pipeline(t):
    t.command("seq 500 | r less")
    t.see(r"^23$")
    t.type("G")
    t.see(r"^500$")
    t.type("q")
    t.is_as_before()
    t.command("r seq 700 | less")
    t.see(r"^23$")
    t.type("G")
    t.see(r"^700$")
    t.type("q")
    t.is_as_before()


def top(t):
    t.command("r top -d 60")
    t.see(r"load average")
    t.resize(100, 12)
    t.see(r"PID")
    t.resize(80, 24)
    t.type("q")
    t.is_as_before()


def ctrl_c(t):
    t.command("r sleep 1000; echo ended-$?")
    time.sleep(0.2)
    t.type("C-c")
    t.see(r"ended-130$")
    t.is_as_before()


def ctrl_z(t):
    t.command("r sh -c 'echo here; read x; echo got-$x'")
    t.see(r"^here$")
    t.type("C-z")
    t.see(r"Stopped")
    t.type("-l", "bg; sleep 0.2; echo behind-$((2 + 2))")
    t.type("Enter")
    t.see(r"behind-4$")
    t.type("-l", "fg")
    t.type("Enter")
    t.type("-l", "word")
    t.type("Enter")
    t.see(r"^got-word$")
    t.is_as_before()


def shell_inside(t):
    t.command("PS1='INNER> ' r bash --norc --noprofile -i")
    t.see(r"^INNER>$")
    t.type("-l", "sleep 1000")
    t.type("Enter")
    time.sleep(0.2)
    t.type("C-c")
    t.type("-l", "echo inner-$((3 + 3)); exit 5")
    t.type("Enter")
    t.see(r"inner-6$")
    t.command("echo code-$?")
    t.see(r"code-5$")
    t.is_as_before()


RAW = (
    "import os, signal, sys, termios, time, tty\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "tty.setraw(0)\n"
    "os.write(1, b'\\x1b[?1049h\\x1b[2JRAW SCREEN')\n"
    "while True: time.sleep(100)\n"
)


def killed(t):
    """Last: the button stays pressed."""
    (t.folder / "raw.py").write_text(RAW)
    t.command("r python3 raw.py")
    t.see(r"RAW SCREEN")
    kill = [os.environ["ESTOP_BINARY"], "kill", "--data-dir", "data"]
    subprocess.run(kill, cwd=t.folder, check=True, capture_output=True)
    t.see(r"^READY>$")
    t.is_as_before()
    t.command("r true; echo code-$?")
    t.see(r"code-1$")


ALL = [vim, vim_suspended, less, less_in_a_pipeline, top, ctrl_c, ctrl_z, shell_inside, killed]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args()
    estop = (args.binaries / "estop").resolve()
    os.environ["ESTOP_BINARY"] = str(estop)
    failed = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        listen = f"listen: {{data: 127.0.0.1:{free_port()}, admin: 127.0.0.1:{free_port()}}}\n"
        (folder / "estop.yaml").write_text(listen)
        serve = [str(estop), "serve", "--config", "estop.yaml", "--data-dir", "data"]
        daemon = subprocess.Popen(serve, cwd=folder, stdout=subprocess.DEVNULL)
        try:
            begun = time.monotonic()
            while not (folder / "data" / "estop.sock").exists():
                if time.monotonic() - begun > PATIENCE_S:
                    sys.exit("estop does not start")
                time.sleep(0.02)
            for scenario in ALL:
                if args.names and scenario.__name__ not in args.names:
                    continue
                terminal = Terminal(estop, folder)
                started = time.monotonic()
                try:
                    scenario(terminal)
                    print(f"{scenario.__name__}: fine, {time.monotonic() - started:.1f} s")
                except AssertionError as error:
                    failed += 1
                    print(f"{scenario.__name__}: FAILED: {error}")
                finally:
                    terminal.close()
        finally:
            daemon.terminate()
            daemon.wait()
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
