"""estop_VERSION_amd64.deb: an `ar` of two tar files, written here so that any machine with Python can make it."""

import hashlib
import lzma
from email.utils import formatdate

from archives import File, gz, tar, with_folders
from contents import SUMMARY, system_configuration, text

CONFIGURATION = "etc/estop/estop.yaml"
MAINTAINER = "estop developers <estop@packages.invalid>"
SCRIPTS = ("postinst", "prerm", "postrm")


def make(contents):
    binary = contents.binary
    files = [
        File("usr/bin/estop", binary.data, 0o755),
        # postinst gives it to the group estop: it may hold addresses of alerts that are secrets themselves.
        File(CONFIGURATION, system_configuration(), 0o640),
        File("etc/estop/keys", mode=0o750),
        File("usr/lib/systemd/system/estop.service", text("packaging/systemd/estop.service")),
        File("usr/lib/systemd/system/estop.socket", text("packaging/systemd/estop.socket")),
        File("usr/share/doc/estop/copyright", text("packaging/debian/copyright")),
        File("usr/share/doc/estop/THIRD-PARTY.txt.gz", gz(contents.licences["THIRD-PARTY.txt"])),
        File("usr/share/doc/estop/README.md", text("README.md")),
        File("usr/share/doc/estop/install.md", text("docs/install.md")),
        File("usr/share/doc/estop/CHANGELOG.md.gz", gz(text("CHANGELOG.md"))),
        File("usr/share/doc/estop/changelog.gz", gz(changelog(contents))),
    ]
    for file in contents.share("usr/share/"):
        is_page = "/man/" in file.path
        files.append(File(file.path + ".gz", gz(file.data)) if is_page else file)
    sums = [f"{hashlib.md5(file.data).hexdigest()}  {file.path}\n" for file in with_folders(files) if file.data is not None]
    control = [
        File("control", fields(contents, files).encode()),
        File("conffiles", f"/{CONFIGURATION}\n".encode()),
        File("md5sums", "".join(sums).encode()),
        *(File(name, text(f"packaging/debian/{name}"), 0o755) for name in SCRIPTS),
    ]
    preset = min(contents.level, 6)
    parts = {
        "debian-binary": b"2.0\n",
        "control.tar.gz": gz(tar(control, contents.when, prefix="./")),
        "data.tar.xz": lzma.compress(tar(files, contents.when, prefix="./"), preset=preset),
    }
    return f"estop_{contents.version}_{binary.debian}.deb", ar(parts, contents.when)


def fields(contents, files):
    depends = ["adduser"]
    if contents.binary.glibc:
        depends += ["libc6 (>= {}.{})".format(*contents.binary.glibc), "libgcc-s1"]
    size = sum((len(file.data or b"") + 1023) // 1024 for file in with_folders(files))
    return f"""Package: estop
Version: {contents.version}
Architecture: {contents.binary.debian}
Maintainer: {MAINTAINER}
Installed-Size: {size}
Depends: {", ".join(depends)}
Section: net
Priority: optional
Description: {SUMMARY.removeprefix("The ")}
 estop stands between AI agents and the models, tools and chats they use. It
 stops an agent that loops, runs away or overspends, and has one red button
 that stops all of them.
"""


def changelog(contents):
    """What Debian's tools read; changes are in CHANGELOG.md."""
    when = formatdate(contents.when)
    return f"estop ({contents.version}) stable; urgency=medium\n\n  * See CHANGELOG.md.gz.\n\n -- {MAINTAINER}  {when}\n".encode()


def ar(parts, when):
    out = b"!<arch>\n"
    for name, data in parts.items():
        head = f"{name:<16}{when:<12}{0:<6}{0:<6}{'100644':<8}{len(data):<10}`\n".encode()
        out += head + data + b"\n" * (len(data) % 2)
    return out
