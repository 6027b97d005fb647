#!/usr/bin/env python3
"""Makes every package from a built estop and uses each as a person does (PK-1, PK-3): installs, starts, asks, stops, removes.

Usage: tests/distribution/run.py [--binaries FOLDER | --binary FILE]   (needs a built estop)

As root, everything happens in namespaces of its own, with no network but a loopback: the image is entered in its own root, the .deb
is installed in a layer over this machine's files that vanishes. Without root these two are skipped.
"""

import argparse
import contextlib
import fcntl
import gzip
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import stat
import signal
import socket
import struct
import subprocess
import sys
import tarfile
import tempfile
import time
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WITHIN_S = 60
EXPOSURE_MAX = 3.0
DATA, ADMIN = 4100, 4101
DEVICES = {"null": 3, "zero": 5, "full": 7, "random": 8, "urandom": 9}
# The number that a socket of the service manager has; kept free for it.
FIRST_PASSED = 3
# From <linux/sockios.h> and <linux/if.h>.
SIOCSIFFLAGS, IFF_UP = 0x8914, 0x1
UNIT = ROOT / "packaging" / "systemd" / "estop.service"
PLAIN = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8"}


def run(*line, fails=False, **more):
    """What a command says; ends the test if it fails (or does not, where it must)."""
    ran = subprocess.run(list(map(str, line)), capture_output=True, text=True, timeout=WITHIN_S, **more)
    if (ran.returncode != 0) != fails:
        sys.exit(f"FAILED: {' '.join(map(str, line))}: exit {ran.returncode}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}")
    return ran.stdout + ran.stderr


def check(is_so, what):
    if not is_so:
        sys.exit(f"FAILED: {what}")


@contextlib.contextmanager
def serving(line, env=PLAIN, chroot=None, user=None, passed=None, ready=200):
    """A daemon that has told its service manager that it is ready, and answers; ended as a manager does."""
    name = f"estop-distribution-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager, tempfile.TemporaryFile("w+") as log:
        manager.bind(f"\0{name}")
        manager.settimeout(WITHIN_S)

        def enter():
            if chroot:
                os.chroot(chroot)
                os.chdir("/")
            if user:
                os.setgroups([])
                os.setgid(user[1])
                os.setuid(user[0])
            os.umask(0o077)

        line = list(map(str, line))
        if passed:
            # As systemd passes a socket; the process must name itself.
            os.dup2(passed.fileno(), FIRST_PASSED)
            line = ["/bin/sh", "-c", 'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" "$@"', *line]
        env = dict(env, NOTIFY_SOCKET=f"@{name}", WATCHDOG_USEC="200000")
        daemon = subprocess.Popen(line, env=env, preexec_fn=enter, pass_fds=[FIRST_PASSED] if passed else [], stdout=log, stderr=log)
        keep_free(FIRST_PASSED)
        try:
            until_told(manager, "READY=1", daemon, log)
            check(get(ADMIN, "/readyz") == ready, f"{line}: /readyz is not {ready}")
            check(get(DATA, "/no-such-provider") == 404, f"{line}: the data port")
            yield daemon
            daemon.send_signal(signal.SIGHUP)
            until_told(manager, "WATCHDOG=1", daemon, log)
            check(get(ADMIN, "/healthz") == 200, f"{line}: /healthz after SIGHUP")
            daemon.terminate()
            check(daemon.wait(WITHIN_S) == 0, f"{line} ended with {daemon.returncode}")
        finally:
            daemon.kill()
            daemon.wait()


def keep_free(descriptor):
    """Nothing that is opened later gets this number, and what had it is closed."""
    nothing = os.open(os.devnull, os.O_RDONLY)
    if nothing != descriptor:
        os.dup2(nothing, descriptor)
        os.close(nothing)


def until_told(manager, state, daemon, log):
    while True:
        try:
            if state in manager.recv(4096).decode().split("\n"):
                return
        except TimeoutError:
            log.seek(0)
            sys.exit(f"FAILED: {daemon.args} did not tell {state}:\n{log.read()[-3000:]}")


def get(port, path):
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=WITHIN_S)) as connection:
        connection.request("GET", path)
        return connection.getresponse().status


def reproducible(binary, folder):
    """All packages, and the same bytes again where time zone, umask and folder differ."""
    making = []
    for name, zone, mask in [("packages", "UTC", 0o022), ("again", "Asia/Tokyo", 0o077)]:
        command = [ROOT / "scripts" / "package", "--binary", binary, "--out", folder / name, "--level", "1"]
        environment = dict(os.environ, TZ=zone)
        making.append(subprocess.Popen(command, cwd=folder, env=environment, umask=mask, stdout=subprocess.PIPE, text=True))
    made = []
    for process in making:
        said = process.communicate(timeout=2 * WITHIN_S)[0]
        check(process.returncode == 0, f"scripts/package: exit {process.returncode}\n{said}")
        out = pathlib.Path(process.args[4])
        made.append({file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in out.iterdir()})
    check(made[0] == made[1] and len(made[0]) == 6, f"not the same twice: {made}")
    run("sha256sum", "--check", "--strict", "SHA256SUMS", cwd=folder / "packages")
    print(said.splitlines()[0])
    return folder / "packages"


def one(packages, pattern):
    found = list(packages.glob(pattern))
    check(len(found) == 1, f"{pattern}: {found}")
    return found[0]


def works_for_a_person(estop, folder):
    """The command where a package put it: version, a program under it, its own daemon."""
    check(re.fullmatch(r"estop \d+\.\d+\.\d+\n", run(estop, "--version", env=PLAIN)), f"{estop} --version")
    env = dict(PLAIN, HOME=str(folder / f"home-{estop.parent.parent.name}"))
    with serving([estop, "serve"], env):
        run(estop, "status", env=env)
        run(estop, "run", "--", "true", env=env)


def archive(packages, folder):
    run("tar", "xzf", one(packages, "*-linux.tar.gz"), cwd=folder)
    unpacked = next(folder.glob("estop-*-linux"))
    works_for_a_person(unpacked / "estop", folder)
    check("SYNOPSIS" in run("man", "-l", unpacked / "share/man/man1/estop-serve.1"), "the manual page")
    script = unpacked / "share/bash-completion/completions/estop"
    completed = 'COMP_WORDS=(estop age); COMP_CWORD=1; _estop estop age estop; echo "${COMPREPLY[@]}"'
    check(run("bash", "-c", f'. "{script}"; {completed}').strip() == "agents", "bash completes")
    licences = (unpacked / "THIRD-PARTY.txt").read_text()
    check(all(name in licences for name in ("rustls 0.", "zstd-sys ", "Meta Platforms")), "licences of crates and of their C code")
    for file in ("LICENSE", "README.md", "INSTALL.md", "estop.yaml", "systemd/estop.service"):
        check((unpacked / file).stat().st_size > 100, file)


def wheel(packages, folder):
    place = folder / "venv"
    venv.create(place, with_pip=True)
    pip = [place / "bin/python", "-m", "pip"]
    run(*pip, "install", "--no-index", "--no-deps", one(packages, "*.whl"))
    works_for_a_person(place / "bin/estop", folder)
    check((place / "share/man/man1/estop.1").is_file(), "the manual page")
    run(*pip, "check")
    run(*pip, "uninstall", "--yes", "estop")
    check(not (place / "bin/estop").exists() and not (place / "share/man/man1/estop.1").exists(), "pip uninstall")


def npm(packages, folder):
    place = folder / "npm"
    env = dict(PLAIN, HOME=str(folder), PATH=os.environ["PATH"])
    command = ["npm", "--offline", "--global", "--prefix", place, "--cache", folder / "npm-cache"]
    run(*command, "install", one(packages, "*-npm-*.tgz"), env=env)
    works_for_a_person(place / "bin/estop", folder)
    check((place / "share/man/man1/estop.1").exists(), "the manual page")
    run(*command, "uninstall", "estop", env=env)
    check(not os.path.lexists(place / "bin/estop"), "npm uninstall")


def image(packages, folder):
    """The layout's own chain of digests, then the root it describes, entered as a container engine would."""
    file = one(packages, "*-image.tar")
    with tarfile.open(file) as layout:
        blobs = {name: layout.extractfile(name).read() for name in layout.getnames() if layout.getmember(name).isfile()}

    def blob(described):
        data = blobs["blobs/" + described["digest"].replace(":", "/")]
        check(described == described | {"digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}, described)
        return data

    manifest = json.loads(blob(json.loads(blobs["index.json"])["manifests"][0]))
    config = json.loads(blob(manifest["config"]))
    legacy = json.loads(blobs["manifest.json"])[0]
    check(legacy["Config"].endswith(manifest["config"]["digest"][7:]), "manifest.json names another configuration")
    root = folder / "image"
    root.mkdir()
    for described, diff_id in zip(manifest["layers"], config["rootfs"]["diff_ids"], strict=True):
        layer = gzip.decompress(blob(described))
        check(diff_id == f"sha256:{hashlib.sha256(layer).hexdigest()}", "diff_ids")
        unpacked = subprocess.run(["tar", "xp", "--numeric-owner"], input=layer, cwd=root)
        check(unpacked.returncode == 0, "the layer cannot be unpacked")
    shell = [path for path in root.rglob("*") if path.name in ("sh", "bash", "busybox")]
    check(not shell, f"there is more than estop in it: {shell}")
    settings = config["config"]
    env = dict(setting.split("=", 1) for setting in settings["Env"])
    user = tuple(map(int, settings["User"].split(":")))
    check(user == (65532, 65532) and list(settings["Volumes"]) == ["/var/lib/estop"], settings)
    with serving(settings["Entrypoint"] + settings["Cmd"], env, root, user):
        token = root / "var/lib/estop/admin-token"
        check(token.stat().st_mode & 0o777 == 0o600 and token.stat().st_uid == 65532, "the admin token")
        run(shutil.which("chroot"), f"--userspec={settings['User']}", root, *settings["Entrypoint"], "status", env=env)


def throwaway_root(folder):
    """This machine's files with a layer over them, mounted where no other process sees it. It ends with this one."""
    mounted = folder / "over"
    mounted.mkdir()
    run("mount", "-t", "tmpfs", "none", mounted)
    for name in ("upper", "work", "root"):
        (mounted / name).mkdir(mode=0o755)
    root = mounted / "root"
    options = f"lowerdir=/,upperdir={mounted}/upper,workdir={mounted}/work"
    run("mount", "-t", "overlay", "none", "-o", options, root)
    run("mount", "-t", "proc", "none", root / "proc")
    for name in ("dev", "tmp"):
        run("mount", "-t", "tmpfs", "none", root / name)
    # Never the machine's /dev, bound: whoever removes files in there would remove its devices.
    for name, minor in DEVICES.items():
        os.mknod(root / "dev" / name, stat.S_IFCHR, os.makedev(1, minor))
        (root / "dev" / name).chmod(0o666)
    (root / "dev/fd").symlink_to("/proc/self/fd")
    return root


def deb(packages, folder):
    root = throwaway_root(folder)
    shutil.copy(one(packages, "*.deb"), root / "tmp/estop.deb")

    def inside(*line, **more):
        return run("chroot", root, *line, env=dict(PLAIN, DEBIAN_FRONTEND="noninteractive"), **more)

    def mode(path):
        return inside("stat", "--format=%a %U:%G", path).strip()

    check(not (root / "etc/estop").exists(), "this machine has /etc/estop: the test needs one without")
    install = ["dpkg", "--path-include=/usr/share/man/*", "--path-include=/usr/share/doc/*", "--install", "/tmp/estop.deb"]
    inside(*install)
    check(inside("dpkg", "--verify", "estop") == "", "dpkg --verify")
    for path, wanted in {
        "/etc/estop/estop.yaml": "640 root:estop", "/etc/estop/keys": "750 root:estop", "/var/lib/estop": "700 estop:estop",
    }.items():
        check(mode(path) == wanted, f"{path} is {mode(path)}")
    check(inside("getent", "passwd", "estop").strip().endswith(":/usr/sbin/nologin"), "a user that can log in")
    check("SYNOPSIS" in inside("man", "estop-agents-list"), "the manual page")
    sandboxed(inside)

    # A person configures it; the provider's key is in a file.
    (root / "etc/estop/keys/openai").write_text("sk-of-the-distribution-test\n")
    inside("chgrp", "estop", "/etc/estop/keys/openai")
    inside("chmod", "640", "/etc/estop/keys/openai")
    configuration = root / "etc/estop/estop.yaml"
    sample = configuration.read_text()
    mine = sample.replace("\nproviders:\n", "\nproviders:\n  openai: {api_key_file: /etc/estop/keys/openai}\n")
    check(mine != sample, "the sample has providers")
    configuration.write_text(mine)
    check("can be used" in inside("estop", "config", "check"), "estop config check")
    command = re.search(r"^ExecStart=(.*)$", UNIT.read_text(), re.M).group(1).split()
    account = inside("getent", "passwd", "estop").split(":")
    user = int(account[2]), int(account[3])
    with serving(command, chroot=root, user=user):
        inside("estop", "status")
        inside("estop", "backup", "/var/backups/estop.tar")
        check(mode("/var/lib/estop/admin-token") == "600 estop:estop", "the admin token")
    # By the socket unit: the daemon takes its socket over, or it does not start.
    address = re.search(r"^ListenStream=(.*):(\d+)$", (ROOT / "packaging/systemd/estop.socket").read_text(), re.M)
    with socket.create_server((address[1], int(address[2]))) as passed:
        with serving(command, chroot=root, user=user, passed=passed):
            inside("estop", "kill", "--note", "it stays pressed over an upgrade")
    # An upgrade keeps what was changed.
    inside(*install)
    check(configuration.read_text() == mine and mode("/etc/estop/estop.yaml") == "640 root:estop", "an upgrade")
    with serving(command, chroot=root, user=user, ready=503):
        check("it stays pressed" in inside("estop", "emergency", "status", fails=True), "the button after an upgrade")
    # Nor does a restored backup open what is shut.
    said = inside("estop", "restore", "/var/backups/estop.tar")
    inside(*re.search(r"Before estop starts: (chown -R \S+ /var/lib/estop)\n", said).group(1).split())
    with serving(command, chroot=root, user=user, ready=503):
        inside("estop", "journal", "verify")
    inside("dpkg", "--remove", "estop")
    left = [(root / path).exists() for path in ("usr/bin/estop", "etc/estop/keys/openai", "var/lib/estop/journal")]
    check(left == [False, True, True] and configuration.read_text() == mine, f"after remove: {left}")
    check("rm -r /var/lib/estop" in inside("dpkg", "--purge", "estop"), "purge says where the data is")
    left = [(root / path).exists() for path in ("etc/estop", "var/lib/estop/journal")]
    check(left == [False, True], f"after purge: {left}")


def sandboxed(inside):
    """What systemd itself says of the installed units."""
    said = inside("systemd-analyze", "verify", "estop.service", "estop.socket")
    check(said == "", f"systemd-analyze verify: {said}")
    said = inside("systemd-analyze", "security", "--offline=true", "--no-pager", "/usr/lib/systemd/system/estop.service")
    exposure = float(re.search(r"Overall exposure level for estop.service: ([\d.]+)", said).group(1))
    print(f"systemd-analyze security: exposure {exposure}")
    check(exposure <= EXPOSURE_MAX, f"exposure {exposure}")


def loopback_up():
    """It is down in a new network."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP))


def try_packages(binary, folder, is_alone):
    keep_free(FIRST_PASSED)
    stripped = folder / "estop"
    # As a release is; a build for tests carries much more.
    run("strip", "-o", stripped, binary)
    packages = reproducible(stripped, folder)
    for part in (archive, wheel, npm, image, deb):
        if not is_alone and part in (image, deb):
            print(f"{part.__name__}: skipped, it needs root and namespaces")
            continue
        start = time.monotonic()
        part(packages, folder)
        print(f"{part.__name__}: fine, {time.monotonic() - start:.0f} s", flush=True)


def remove(folder):
    """From outside, where nothing is mounted in it; if anything is, removing would reach into that."""
    mounts = pathlib.Path("/proc/self/mountinfo").read_text()
    check(f" {folder}" not in mounts, f"something is mounted in {folder}, so it is left")
    shutil.rmtree(folder)


def can_mount(alone):
    """Whether namespaces, a layer over this machine's files and devices in it can be had here: containers often have none."""
    script = """set -e; mount -t tmpfs none "$0"; cd "$0"; mkdir upper work root
        mount -t overlay none -o "lowerdir=/,upperdir=$0/upper,workdir=$0/work" root; mknod root/null c 1 3; : > root/null"""
    with tempfile.TemporaryDirectory(prefix="estop-distribution-") as folder:
        tried = subprocess.run([*alone, "sh", "-c", script, folder], capture_output=True, text=True)
    if tried.returncode != 0:
        print(f"no root of its own here: {tried.stderr.strip()}")
    return tried.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug", help="default: target/debug")
    parser.add_argument("--binary", type=pathlib.Path, help="the binary itself, such as a static one")
    parser.add_argument("--inside", type=pathlib.Path, metavar="FOLDER", help=argparse.SUPPRESS)
    args = parser.parse_args()
    binary = (args.binary or args.binaries / "estop").resolve()
    if args.inside:
        loopback_up()
        return try_packages(binary, args.inside, is_alone=True)
    alone = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    can_be_alone = os.geteuid() == 0 and can_mount(alone)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-distribution-"))
    folder.chmod(0o755)
    try:
        if not can_be_alone:
            try_packages(binary, folder, is_alone=False)
        elif subprocess.run([*alone, sys.executable, __file__, "--binary", binary, "--inside", folder]).returncode != 0:
            sys.exit(1)
    finally:
        remove(folder)
    print("fine")


if __name__ == "__main__":
    main()
