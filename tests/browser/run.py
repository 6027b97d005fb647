#!/usr/bin/env python3
"""Drives the dashboard of a real estop in a real Chromium (UI-1, KS-6).

Usage: tests/browser/run.py [--binaries FOLDER] [--only NAME…]      (needs a built estop, chromium and chromedriver)
       tests/browser/run.py --screenshots docs/images [--binaries FOLDER]   takes the pictures of docs/dashboard.md instead

selenium and axe-core are installed once into ESTOP_TOOLS_CACHE (default ~/.cache/estop-tools). Where the browser or
they cannot be got, the test is skipped and says so.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
import tools  # noqa: E402
AXE = "axe-core@4.14.0"


def installed():
    """A Python with selenium and the file axe.min.js; `None` if they cannot be got."""
    found = tools.python("browser", HERE / "requirements.txt", "selenium")
    folder = tools.cache("browser-npm", AXE.encode())
    axe = folder / "node_modules" / "axe-core" / "axe.min.js"
    if found and not axe.exists():
        print("installing axe-core …", flush=True)
        npm = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, AXE]
        if subprocess.run(npm).returncode != 0:
            return None
    return (found / "python", axe) if found else None


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--screenshots", type=pathlib.Path)
    arguments = parser.parse_args()
    for program in ("chromium", "chromedriver", "npm"):
        if not shutil.which(program):
            print(f"skipped: {program} is missing (apt-get install chromium chromium-driver npm)")
            return 0
    found = installed()
    if found is None:
        print("skipped: selenium or axe-core cannot be installed here")
        return 0
    python, axe = found
    command = [python, HERE / "drive.py", arguments.binaries.resolve(), axe]
    if arguments.screenshots:
        arguments.screenshots.mkdir(parents=True, exist_ok=True)
        command += ["--screenshots", arguments.screenshots.resolve()]
    return subprocess.run([*command, *arguments.only], env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1")).returncode


if __name__ == "__main__":
    sys.exit(main())
