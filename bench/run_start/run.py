#!/usr/bin/env python3
"""What `estop run` adds to the start and end of a program, beside the program alone and `setsid`.

Usage: bench/run_start/run.py [--binaries DIR] [--times N]   (a daemon is started in a folder of its own and ended again)

Printed: median and 95th percentile of wall time in milliseconds for `true`, `setsid -w true`, `estop run --quiet -- true` with a
daemon that runs, and the first `estop run` of a data directory, which starts one.
"""

import argparse
import os
import pathlib
import re
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def took_ms(line, folder):
    begun = time.perf_counter()
    done = subprocess.run(line, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    took = (time.perf_counter() - begun) * 1000
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)}: {done.returncode}: {done.stderr}")
    return took, done.stderr


def show(name, times):
    times = sorted(times)
    late = times[min(len(times) - 1, int(len(times) * 0.95))]
    print(f"{name:42} p50 {statistics.median(times):7.2f} ms   p95 {late:7.2f} ms   ({len(times)} times)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "release")
    parser.add_argument("--times", type=int, default=200)
    args = parser.parse_args()
    estop = str((args.binaries / "estop").resolve())
    if not os.access(estop, os.X_OK):
        sys.exit(f"there is no {estop}: build it, or name another folder with --binaries")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        listen = f"listen: {{data: 127.0.0.1:{free_port()}, admin: 127.0.0.1:{free_port()}}}\n"
        (folder / "estop.yaml").write_text(listen)
        run = [estop, "run", "--config", "estop.yaml", "--data-dir", "data", "--agent", "bench"]
        first, said = took_ms([*run, "--", "true"], folder)
        daemon = int(re.search(r"to end it: kill (\d+)", said).group(1))
        try:
            show("true", [took_ms(["true"], folder)[0] for _ in range(args.times)])
            show("setsid -w true", [took_ms(["setsid", "-w", "true"], folder)[0] for _ in range(args.times)])
            quiet = [*run, "--quiet", "--", "true"]
            show("estop run -- true", [took_ms(quiet, folder)[0] for _ in range(args.times)])
            show("estop run -- true, which starts a daemon", [first])
        finally:
            os.kill(daemon, signal.SIGTERM)
            while pathlib.Path(f"/proc/{daemon}").exists():
                time.sleep(0.02)


if __name__ == "__main__":
    main()
