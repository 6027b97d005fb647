"""estop-VERSION-npm-linux-x64.tgz: npm links the binary as `estop`; no script runs when it is installed."""

import json

from archives import File, gz, tar
from contents import SUMMARY, text


def make(contents):
    binary = contents.binary
    package = {
        "name": "estop",
        "version": contents.version,
        "description": SUMMARY,
        "license": "Apache-2.0",
        "os": ["linux"],
        "cpu": [binary.node],
        "bin": {"estop": "bin/estop"},
        "man": [f"man/{name}" for name in contents.manual],
        "files": ["bin", "man", "THIRD-PARTY.txt"],
    }
    if binary.glibc:
        package["libc"] = ["glibc"]
    files = [
        File("package.json", (json.dumps(package, indent=2) + "\n").encode()),
        *(File(name, licence) for name, licence in contents.licences.items()),
        File("README.md", text("README.md")),
        File("bin/estop", binary.data, 0o755),
        *(File(f"man/{name}", page) for name, page in contents.manual.items()),
    ]
    name = f"estop-{contents.version}-npm-linux-{binary.node}.tgz"
    return name, gz(tar(files, contents.when, prefix="package/"), contents.level)
