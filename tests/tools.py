"""Libraries the tests need, installed once for their very versions into ESTOP_TOOLS_CACHE (default ~/.cache/estop-tools)."""

import hashlib
import os
import pathlib
import subprocess
import venv


def cache(name, pinned):
    """The folder for what these bytes name."""
    base = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    base = pathlib.Path(os.environ.get("ESTOP_TOOLS_CACHE") or base / "estop-tools")
    return base / f"{name}-{hashlib.sha256(pinned).hexdigest()[:8]}"


def python(name, requirements, what):
    """The `bin` of a Python that has the libraries of a requirements.txt; `None` if they cannot be got."""
    folder = cache(name, requirements.read_bytes())
    if not (folder / "installed").exists():
        print(f"installing {what} …", flush=True)
        venv.create(folder, with_pip=True, clear=True)
        pip = [folder / "bin" / "pip", "install", "--quiet", "--no-deps", "--requirement", requirements]
        if subprocess.run(pip).returncode != 0:
            return None
        (folder / "installed").touch()
    return folder / "bin"
