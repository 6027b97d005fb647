"""What every package holds: the binary, and what the binary itself says of its version, its manual and its completions."""

import os
import pathlib
import subprocess
import tempfile

from archives import File
from notices import notices

ROOT = pathlib.Path(__file__).resolve().parent.parent
PACKAGING = ROOT / "packaging"
SUMMARY = "The emergency stop for AI agents"
DATA_DIR = "/var/lib/estop"
COMPLETIONS = {
    "bash": "bash-completion/completions/estop",
    "zsh": "zsh/vendor-completions/_estop",
    "fish": "fish/vendor_completions.d/estop.fish",
}


def text(path):
    return (ROOT / path).read_bytes()


class Contents:
    def __init__(self, binary, level):
        self.binary, self.level = binary, level
        self.version = self._run("--version").decode().split()[1]
        self.when = release_time()
        self.licences = {"LICENSE": text("LICENSE"), "THIRD-PARTY.txt": notices(ROOT, binary.arch)}
        self.completions = {shell: self._run("completions", shell) for shell in COMPLETIONS}
        with tempfile.TemporaryDirectory() as folder:
            self._run("manual", folder)
            self.manual = {page.name: page.read_bytes() for page in sorted(pathlib.Path(folder).iterdir())}

    def _run(self, *args):
        # Nothing of this machine's own estop, and help as wide as anywhere.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("ESTOP_")}
        return subprocess.run([self.binary.path, *args], env=environment, capture_output=True, check=True).stdout

    def share(self, prefix):
        """Manual pages and completions, where Linux looks for them."""
        pages = [File(f"{prefix}man/man1/{name}", page) for name, page in self.manual.items()]
        return pages + [File(prefix + COMPLETIONS[shell], script) for shell, script in self.completions.items()]


def system_configuration():
    """The sample with the data directory of a system service."""
    sample = text("samples/estop.yaml").decode()
    line = next(line for line in sample.splitlines() if line.startswith("#: data_dir:"))
    return sample.replace(line, f"data_dir: {DATA_DIR}").encode()


def release_time():
    """The time that files in packages have: SOURCE_DATE_EPOCH, else that of the commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    asked = subprocess.run(["git", "log", "-1", "--format=%ct"], cwd=ROOT, capture_output=True, text=True)
    if asked.returncode != 0:
        raise SystemExit("Set SOURCE_DATE_EPOCH: there is no git history to take the time from.")
    return int(asked.stdout)
