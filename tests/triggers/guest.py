"""A Debian kernel in QEMU, with the kernel's own simulators of GPIO lines and input devices, for programs of this machine.

The guest sees this machine's files read-only, so it runs the same estop and the same Python. Its kernel and, where that has
no gpio-sim (Debian 12), the two source files for it come from apt, as they are; nothing is installed. A folder keeps them.
"""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile

# Loaded in this order, each with what it needs.
MODULES = ["virtio_pci", "9pnet_virtio", "9p", "configfs", "evdev", "uinput"]
TOOLS = {
    "qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "cpio": "cpio", "modprobe": "kmod",
    "depmod": "kmod", "apt-get": "apt", "dpkg": "dpkg", "make": "make",
}
BOOT_WITHIN_S = 600
# Everything this machine has is at /, except: /run is the guest's memory, /mnt the folder it may write to.
INIT = """#!/bin/busybox sh
export PATH=/bin
/bin/busybox --install -s /bin
mkdir -p /proc /sys /dev /host
mount -t proc proc /proc && mount -t sysfs sysfs /sys && mount -t devtmpfs dev /dev
while read -r module; do insmod "$module" || echo "GUEST: no $module"; done < /modules/order
ip link set lo up
mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=524288 host /host || poweroff -f
mount -t tmpfs tmpfs /host/run
mount -t 9p -o trans=virtio,version=9p2000.L,msize=524288 scratch /host/mnt || poweroff -f
for folder in proc sys dev; do mount --move /$folder /host/$folder; done
mount -t configfs configfs /host/sys/kernel/config
chroot /host /usr/bin/env PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin HOME=/run TMPDIR=/run {command}
echo "GUEST: ended with $?"
poweroff -f
"""


class Skipped(Exception):
    """It cannot be done here; says why."""


def is_prepared(folder):
    return (folder / "ready").exists()


def prepare(folder):
    """Fetches the kernel (about 75 MB, and 150 MB more where gpio-sim must be built) and makes the modules."""
    needs_tools()
    if is_prepared(folder):
        return
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    image = newest_image()
    fetch(folder, [image])
    unpack(folder, image)
    release = image.removeprefix("linux-image-").removesuffix("-unsigned")
    modules = folder / "packages" / "lib" / "modules" / release
    if not modules.exists():
        modules = folder / "packages" / "usr" / "lib" / "modules" / release
    if not list(modules.rglob("gpio-sim.ko*")):
        build_gpio_sim(folder, release, modules)
    base = modules.parent.parent.parent
    ran(["depmod", "-b", str(base), release])
    for file in folder.glob("*.deb"):
        file.unlink()
    shutil.rmtree(folder / "packages" / "usr" / "src", ignore_errors=True)
    (folder / "ready").write_text(f"{release}\n{base}\n")


def needs_tools():
    # Where the tools of kernels are, and not everybody looks.
    os.environ["PATH"] += ":/usr/sbin:/sbin"
    missing = sorted({package for tool, package in TOOLS.items() if not shutil.which(tool)})
    if missing:
        raise Skipped(f"apt install {' '.join(missing)}")
    # The guest has no libraries before this machine's files are there.
    if subprocess.run(["ldd", shutil.which("busybox")], capture_output=True, check=False).returncode == 0:
        raise Skipped("apt install busybox-static")


def ran(line, **more):
    done = subprocess.run(line, capture_output=True, text=True, **more)
    if done.returncode != 0:
        raise Skipped(f"{' '.join(line)}: {(done.stderr or done.stdout).strip()[-300:]}")
    return done.stdout


def newest_image():
    found = re.search(r"Depends: (linux-image-\S+)", ran(["apt-cache", "depends", "linux-image-amd64"]))
    if not found:
        raise Skipped("apt knows no linux-image-amd64: the guest's kernel is Debian's")
    return found[1]


def fetch(folder, packages):
    ran(["apt-get", "download", *packages], cwd=folder)


def unpack(folder, package):
    for file in folder.glob(f"{package}_*.deb"):
        ran(["dpkg", "-x", str(file), str(folder / "packages")])
        return
    raise Skipped(f"{package} was not fetched")


def build_gpio_sim(folder, release, modules):
    """The kernel's gpio-sim as a module of its own, for a kernel that was built without it."""
    version = ".".join(release.split(".")[:2])
    common = re.sub(r"-[a-z0-9]+$", "-common", release)
    parts = [f"linux-headers-{release}", f"linux-headers-{common}", f"linux-kbuild-{version}"]
    source = f"linux-source-{version}"
    fetch(folder, [*parts, source])
    for part in parts:
        unpack(folder, part)
    headers = folder / "packages" / "usr" / "src" / f"linux-headers-{release}"
    makefile = headers / "Makefile"
    makefile.write_text(makefile.read_text().replace("/usr/src/", f"{folder}/packages/usr/src/"))
    unpack(folder, source)
    archive = folder / "packages" / "usr" / "src" / f"{source}.tar.xz"
    wanted = ["drivers/gpio/gpio-sim.c", "drivers/gpio/gpiolib.h", "kernel/irq/irq_sim.c"]
    ran(["tar", "-xJf", str(archive), "-C", str(folder), "--strip-components=1", *[f"{source}/{file}" for file in wanted]])
    archive.unlink()
    module = folder / "gpio-sim"
    module.mkdir()
    for file in wanted:
        name = "main.c" if file.endswith("gpio-sim.c") else pathlib.Path(file).name
        shutil.copy(folder / file, module / name)
    # `irq_to_desc` is not for modules; this does the same with the number.
    interrupts = module / "irq_sim.c"
    text = interrupts.read_text()
    interrupts.write_text(text.replace("handle_simple_irq(irq_to_desc(irqnum))", "generic_handle_irq_safe(irqnum)"))
    (module / "Kbuild").write_text("obj-m := gpio-sim.o\ngpio-sim-y := main.o irq_sim.o\n")
    ran(["make", "-C", str(headers), f"M={module}", "modules"])
    place = modules / "extra"
    place.mkdir(exist_ok=True)
    shutil.copy(module / "gpio-sim.ko", place)


def boot(folder, command, scratch):
    """Runs a command in the guest, until it ends; gives back what was said on the console. `scratch` is /mnt there."""
    release, base = (folder / "ready").read_text().split()
    with tempfile.TemporaryDirectory(prefix="estop-guest-") as made:
        made = pathlib.Path(made)
        initramfs = make_initramfs(made, release, base, command)
        kernel = next((folder / "packages" / "boot").glob(f"vmlinuz-{release}"))
        share = "local,security_model=none"
        line = [
            "qemu-system-x86_64", "-accel", "tcg", "-cpu", "max", "-smp", "2", "-m", "1024",
            "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio", "-kernel", str(kernel), "-initrd", str(initramfs),
            "-append", "console=ttyS0 quiet panic=-1", "-virtfs", f"{share},path=/,mount_tag=host,readonly=on,multidevs=remap",
            "-virtfs", f"{share},path={scratch},mount_tag=scratch",
        ]
        try:
            done = subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", timeout=BOOT_WITHIN_S)
        except subprocess.TimeoutExpired as late:
            return f"{(late.stdout or b'').decode(errors='replace')}\nthe guest did not end within {BOOT_WITHIN_S} s"
        return done.stdout + done.stderr


def make_initramfs(made, release, base, command):
    """A busybox, the modules in the order of loading, and what to do."""
    tree = made / "tree"
    (tree / "bin").mkdir(parents=True)
    (tree / "modules").mkdir()
    shutil.copy(shutil.which("busybox"), tree / "bin" / "busybox")
    order = []
    for name in [*MODULES, "gpio-sim"]:
        shown = ran(["modprobe", "-d", base, "-S", release, "--show-depends", name])
        for path in re.findall(r"^insmod (\S+)", shown, re.M):
            file = pathlib.Path(path)
            if f"/modules/{file.name}" not in order:
                shutil.copy(file, tree / "modules")
                order.append(f"/modules/{file.name}")
    (tree / "modules" / "order").write_text("".join(f"{path}\n" for path in order))
    init = tree / "init"
    init.write_text(INIT.format(command=command))
    init.chmod(0o755)
    archive = made / "initramfs"
    with open(archive, "wb") as out:
        names = "".join(f"{path.relative_to(tree)}\n" for path in sorted(tree.rglob("*")))
        subprocess.run(["cpio", "-o", "-H", "newc", "--quiet"], cwd=tree, input=names.encode(), stdout=out, check=True)
    return archive
