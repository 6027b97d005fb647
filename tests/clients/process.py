"""Runs a program with a time limit and without leftovers, also if it starts daemons (Cline does)."""

import contextlib
import ctypes
import dataclasses
import os
import pathlib
import signal
import subprocess
import tempfile
import time

# What a client said is quoted and searched, not archived.
OUTPUT_BYTES_MAX = 4_000_000


@dataclasses.dataclass
class Ended:
    """How a program ended. `exit` is None if it was killed for taking too long."""

    exit: int | None
    stdout: str
    stderr: str
    seconds: float
    # The harness's reading of it.
    ok: bool = False
    text: str = ""
    error: str | None = None

    @property
    def output(self):
        return self.stdout + self.stderr


def adopt_orphans():
    """From here on, what a client leaves behind becomes a child of this process, where it can be found. Linux only."""
    pr_set_child_subreaper = 36
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(pr_set_child_subreaper, 1, 0, 0, 0)


def run_bounded(line, env, cwd, timeout_s):
    """Runs a command line; at its end, or at the time limit, kills its group and everything else it left."""
    line = [str(part) for part in line]
    others = children()
    started = time.monotonic()
    with tempfile.TemporaryFile() as stdout, tempfile.TemporaryFile() as stderr:
        streams = {"stdin": subprocess.DEVNULL, "stdout": stdout, "stderr": stderr}
        program = subprocess.Popen(line, env=env, cwd=cwd, start_new_session=True, **streams)
        code = None
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = program.wait(timeout_s)
        kill_group(program)
        kill_orphans(others)
        return Ended(code, read(stdout), read(stderr), time.monotonic() - started)


def kill_group(program):
    with contextlib.suppress(ProcessLookupError):
        os.killpg(program.pid, signal.SIGKILL)
    program.wait(10)


def kill_orphans(others):
    """Kills new children until there are none: the children of a killed one come next."""
    while orphans := children() - others:
        for pid in orphans:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def children():
    """Processes whose parent is this one."""
    found = set()
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            # The command, in brackets, may hold spaces; state and parent follow it.
            parent = stat.read_text().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                found.add(int(stat.parent.name))
    return found


def read(stream):
    stream.seek(0)
    return stream.read(OUTPUT_BYTES_MAX).decode("utf-8", "replace")
