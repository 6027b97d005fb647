#!/usr/bin/env python3
"""Drives the dashboard of a real estop in a real Chromium (UI-1, KS-6).

Usage: tests/browser/run.py [--binaries FOLDER] [--only NAME…]      (needs a built estop, chromium and chromedriver)
       tests/browser/run.py --screenshots docs/images [--binaries FOLDER]   takes the pictures of docs/dashboard.md instead

selenium and axe-core are installed once into ESTOP_TOOLS_CACHE (default ~/.cache/estop-tools). Where the browser or
they cannot be got, the test is skipped and says so.
"""

import argparse
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
AXE = "axe-core@4.14.0"


def tools():
    """A Python with selenium and the file axe.min.js; `None` if they cannot be got."""
    cache = os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache"
    cache = pathlib.Path(os.environ.get("ESTOP_TOOLS_CACHE") or pathlib.Path(cache) / "estop-tools")
    pinned = HERE / "requirements.txt"
    key = hashlib.sha256(pinned.read_bytes() + AXE.encode()).hexdigest()[:8]
    folder = cache / f"browser-{key}"
    if not (folder / "installed").exists():
        print("installing selenium and axe-core …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--no-deps", "--requirement", pinned]
        npm = ["npm", "install", "--silent", "--no-save", "--ignore-scripts", "--prefix", folder, AXE]
        if subprocess.run(pip).returncode != 0 or subprocess.run(npm).returncode != 0:
            return None
        (folder / "installed").touch()
    return folder / "bin" / "python", folder / "node_modules" / "axe-core" / "axe.min.js"


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
    found = tools()
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
