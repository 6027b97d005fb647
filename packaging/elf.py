"""What a binary for Linux is and needs, read from the file itself."""

import re
import struct

# ELF's number of the processor, and its names: of Linux, Debian, containers and npm.
MACHINES = {62: ("x86_64", "amd64", "amd64", "x64"), 183: ("aarch64", "arm64", "arm64", "arm64")}
PT_INTERP = 3


class Binary:
    def __init__(self, path):
        self.path = path.resolve()
        self.data = path.read_bytes()
        if self.data[:6] != b"\x7fELF\x02\x01":
            raise SystemExit(f"{path} is no binary for a 64-bit Linux")
        machine = struct.unpack_from("<H", self.data, 18)[0]
        if machine not in MACHINES:
            raise SystemExit(f"{path} is for a processor that is not known here: {machine}")
        self.arch, self.debian, self.oci, self.node = MACHINES[machine]
        # The oldest glibc it runs with, as (2, 36); `None` if it brings everything along.
        self.glibc = None
        if self._has_loader():
            needed = re.findall(rb"\0GLIBC_(\d+)\.(\d+)", self.data)
            if not needed:
                raise SystemExit(f"{path} is linked with another libc than glibc: link it statically")
            self.glibc = max((int(major), int(minor)) for major, minor in needed)

    def _has_loader(self):
        table, size, count = (struct.unpack_from(form, self.data, at)[0] for form, at in [("<Q", 32), ("<H", 54), ("<H", 56)])
        kinds = (struct.unpack_from("<I", self.data, table + number * size)[0] for number in range(count))
        return PT_INTERP in kinds

    def describe(self):
        if self.glibc is None:
            return "static: runs on any Linux"
        return "dynamic: needs glibc {}.{} or newer".format(*self.glibc)
