#!/usr/bin/env python3
"""Sends alerts to real receivers and lets others judge what arrives (AL-1, AL-2).

Usage: tests/alerts/run.py [--binaries FOLDER]   (needs `cargo build -p estop -p estop-notify --bins --example send`)

The libraries are installed once, in the versions of requirements.txt and package.json, into ESTOP_TOOLS_CACHE (default
~/.cache/estop-tools). Where they cannot be got, the test is skipped and says so.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import tools  # noqa: E402


def node():
    """A folder with the npm packages; `None` if they cannot be got."""
    pinned = HERE / "package.json"
    folder = tools.cache("alerts-npm", pinned.read_bytes())
    if not (folder / "installed").exists():
        print("installing the services' types and GitHub's description …", flush=True)
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(pinned, folder)
        npm = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        if not shutil.which("npm") or subprocess.run(npm, cwd=folder).returncode != 0:
            return None
        (folder / "installed").touch()
    return folder


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    binaries = parser.parse_args().binaries.resolve()
    send, estop = binaries / "examples" / "send", binaries / "estop"
    for program in (send, estop):
        if not program.exists():
            sys.exit(f"{program} is not there: cargo build -p estop -p estop-notify --bins --example send")
    installed, packages = tools.python("alerts", HERE / "requirements.txt", "aiosmtpd and standardwebhooks"), node()
    if installed is None or packages is None:
        print("skipped: the libraries cannot be installed here (no network?)")
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-alerts-"))
    try:
        environment = dict(os.environ, PYTHONDONTWRITEBYTECODE="1", HTTP_PROXY="http://127.0.0.1:9",
                           HTTPS_PROXY="http://127.0.0.1:9", NO_PROXY="127.0.0.1,localhost")
        done = subprocess.run([installed / "python", HERE / "drive.py", send, packages, folder, estop], env=environment)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print("fine" if done.returncode == 0 else "FAILED")
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
