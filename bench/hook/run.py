#!/usr/bin/env python3
"""How long `estop hook` takes, from its start to its end: it runs before every tool call of an agent.

Usage: bench/hook/run.py [--calls N] [--binaries FOLDER]   (needs a built estop; release, or the numbers mean little)

Each call is a new process that asks a running `estop serve`, as a client would start it. Beside it what a process costs
at all on this machine: `/bin/true`, and `python3 -c pass`, in which most hooks are written. Calls of the three take turns,
so that a busy machine is busy for all of them.
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

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
CONFIG = "listen: {data: 127.0.0.1:0, admin: 127.0.0.1:0}\n"
AIM_MS = 10
PAYLOAD = {
    "session_id": "s1",
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "ls -la"},
}


def timed(line, text, env, code):
    begun = time.perf_counter()
    done = subprocess.run(line, input=text, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    seconds = time.perf_counter() - begun
    if done.returncode not in code:
        sys.exit(f"{line[0]} ended with {done.returncode}: {done.stdout.decode()}{done.stderr.decode()}")
    return seconds


def payload(number):
    """A call of its own each time, in a session of its own every 50: no guard has anything to say."""
    said = {**PAYLOAD, "session_id": f"s{number // 50}", "tool_use_id": f"t{number}", "cwd": str(ROOT)}
    said["tool_input"] = {"command": f"cat file-{number}.txt"}
    return json.dumps(said).encode()


def at(times, share):
    return 1000 * sorted(times)[min(len(times) - 1, int(len(times) * share))]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=500)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "release")
    options = parser.parse_args()
    estop = str((options.binaries / "estop").resolve())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-hook-"))
    (folder / "estop.yaml").write_text(CONFIG)
    serve = [estop, "serve", "--config", "estop.yaml", "--data-dir", "data"]
    daemon = subprocess.Popen(serve, cwd=folder, stdout=subprocess.PIPE, text=True)
    try:
        daemon.stdout.readline()
        env = {"PATH": os.environ["PATH"], "HOME": str(folder), "ESTOP_SOCKET": str(folder / "data" / "estop.sock")}
        # Inside a run: an estop that is not reached would refuse, and the call would end with 2.
        env["ESTOP_ON_UNREACHABLE"] = "deny"
        peers = {
            "estop hook": [estop, "hook", "claude-code", "PreToolUse", "--installed"],
            "/bin/true": ["/bin/true"],
            "python3 -c pass": ["python3", "-c", "pass"],
        }
        times = {name: [] for name in peers}
        for number in range(options.calls + 10):
            for name, line in peers.items():
                seconds = timed(line, payload(number), env, {0})
                # The first few bring the programs into memory.
                if number >= 10:
                    times[name].append(seconds)
    finally:
        daemon.terminate()
        daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)
    own = times["estop hook"]
    print(f"{options.calls} calls each, start to end, ms")
    print(f"{'':18}{'p50':>8}{'p99':>8}   estop hook takes")
    for name, taken in times.items():
        ratio = "" if taken is own else f"   {at(own, 0.5) / at(taken, 0.5):.2f} times as long (p50)"
        print(f"{name:18}{at(taken, 0.5):>8.2f}{at(taken, 0.99):>8.2f}{ratio}")
    print(f"aim: p50 of estop hook at most {AIM_MS} ms: {'met' if at(own, 0.5) <= AIM_MS else 'MISSED'}")


if __name__ == "__main__":
    main()
