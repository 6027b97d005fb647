"""estop-VERSION-x86_64-linux.tar.gz: unpack and run; with what a service needs, to be copied by hand."""

from archives import File, gz, tar
from contents import system_configuration, text


def make(contents):
    name = f"estop-{contents.version}-{contents.binary.arch}-linux"
    files = [
        File("estop", contents.binary.data, 0o755),
        *(File(name, licence) for name, licence in contents.licences.items()),
        File("README.md", text("README.md")),
        File("INSTALL.md", text("docs/install.md")),
        File("estop.yaml", system_configuration()),
        File("systemd/estop.service", text("packaging/systemd/estop.service")),
        File("systemd/estop.socket", text("packaging/systemd/estop.socket")),
        *contents.share("share/"),
    ]
    return f"{name}.tar.gz", gz(tar(files, contents.when, prefix=f"{name}/"), contents.level)
