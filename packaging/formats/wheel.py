"""estop-VERSION-py3-none-….whl: pip puts the binary where it puts scripts; no Python runs with it."""

import base64
import hashlib
import io
import time
import zipfile

from archives import File
from contents import SUMMARY, text

# The first year that a zip file can say.
ZIP_BEGINS = 315532800


def make(contents):
    binary = contents.binary
    if binary.glibc is None:
        # It needs no libc, so it fits both kinds of system; the numbers are the oldest that pip knows.
        platform = f"manylinux_2_17_{binary.arch}.musllinux_1_1_{binary.arch}"
    else:
        platform = "manylinux_{}_{}_{}".format(*binary.glibc, binary.arch)
    name = f"estop-{contents.version}"
    info = f"{name}.dist-info"
    tags = "".join(f"Tag: py3-none-{tag}\n" for tag in platform.split("."))
    files = [
        File(f"{name}.data/scripts/estop", binary.data, 0o755),
        *contents.share(f"{name}.data/data/share/"),
        File(f"{info}/METADATA", metadata(contents)),
        File(f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: estop\nRoot-Is-Purelib: false\n{tags}".encode()),
        *(File(f"{info}/licenses/{name}", licence) for name, licence in contents.licences.items()),
    ]
    record = "".join(f"{file.path},sha256={hashed(file.data)},{len(file.data)}\n" for file in files)
    files.append(File(f"{info}/RECORD", f"{record}{info}/RECORD,,\n".encode()))
    return f"{name}-py3-none-{platform}.whl", packed(files, contents)


def metadata(contents):
    head = f"""Metadata-Version: 2.4
Name: estop
Version: {contents.version}
Summary: {SUMMARY}
License-Expression: Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY.txt
Requires-Python: >=3.9
Description-Content-Type: text/markdown

"""
    return head.encode() + text("README.md")


def hashed(data):
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()


def packed(files, contents):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for file in files:
            entry = zipfile.ZipInfo(file.path, time.gmtime(max(contents.when, ZIP_BEGINS))[:6])
            entry.external_attr = (0o100000 | file.mode) << 16
            archive.writestr(entry, file.data, zipfile.ZIP_DEFLATED, contents.level)
    return out.getvalue()
