#!/usr/bin/env python3
"""The buttons on a wire and on USB, pressed through a real kernel: its gpio-sim plays the chip, its uinput the device.

Usage: tests/triggers/gpio.py [--binaries FOLDER] [--rounds N] [--guest FOLDER]   (run.py calls it too)

estop is the real one, and so are the kernel's character devices, edges, interrupts and debouncing; the wire is not. It runs
on this machine's kernel where root may load gpio-sim, else in a Debian kernel in QEMU (see guest.py), where everything
is some ten times slower than on a machine. Skipped with the reason where neither can be had.
"""

import argparse
import fcntl
import json
import os
import pathlib
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import time

import guest
from drill import HERE, ROOT, WITHIN_S, Estop, Wrong, drill, gate_us, model_started

LINE = 17
# Where the guest's kernel is kept.
KERNEL = ROOT / "target" / "gpio-guest"
SIMULATORS = pathlib.Path("/sys/kernel/config/gpio-sim")
GET_LINE_INFO, ATTRIBUTE_DEBOUNCE = 0xC100B405, 3
EV_SYN, EV_KEY, KEY_STOP, KEY_A = 0, 1, 128, 30
UI_SET_EVBIT, UI_SET_KEYBIT, UI_DEV_CREATE, UI_DEV_DESTROY = 0x40045564, 0x40045565, 0x5501, 0x5502
BUTTON = "estop test button"


class Chip:
    """A chip of the kernel's GPIO simulator."""

    def __init__(self, name, link):
        self.config, self.link = SIMULATORS / name, link
        (self.config / "bank0").mkdir(parents=True)
        (self.config / "bank0" / "num_lines").write_text("32")
        self.plug_in()

    def plug_in(self):
        (self.config / "live").write_text("1")
        read = lambda path: (self.config / path).read_text().strip()
        # The kernel may give it another number than before; udev would keep such a link.
        self.link.unlink(missing_ok=True)
        self.link.symlink_to(pathlib.Path("/dev") / read("bank0/chip_name"))
        self.pull_file = pathlib.Path("/sys/devices/platform", read("dev_name"), read("bank0/chip_name"), f"sim_gpio{LINE}", "pull")

    def pull_out(self):
        (self.config / "live").write_text("0")

    def pull(self, way):
        """What the wire does to the line: "up" or "down"."""
        self.pull_file.write_text(f"pull-{way}")
        return time.monotonic()

    def debounce_us(self):
        """How long the kernel itself waits for a calm line, as it says; nothing if it does not. (gpio_v2_line_info)"""
        about = bytearray(256)
        struct.pack_into("I", about, 64, LINE)
        with open(self.link, "rb") as chip:
            fcntl.ioctl(chip, GET_LINE_INFO, about)
        attributes = [struct.unpack_from("IxxxxI", about, 80 + 16 * number) for number in range(struct.unpack_from("I", about, 68)[0])]
        return dict(attributes).get(ATTRIBUTE_DEBOUNCE)

    def remove(self):
        self.pull_out()
        (self.config / "bank0").rmdir()
        self.config.rmdir()


class Device:
    """An input device of the kernel's uinput."""

    def __init__(self):
        before = set(pathlib.Path("/dev/input").glob("event*"))
        self.file = os.open("/dev/uinput", os.O_WRONLY)
        fcntl.ioctl(self.file, UI_SET_EVBIT, EV_KEY)
        for key in (KEY_STOP, KEY_A):
            fcntl.ioctl(self.file, UI_SET_KEYBIT, key)
        # struct uinput_user_dev: name, bus, vendor, product, version, effects, and four tables of 64.
        os.write(self.file, struct.pack("80sHHHHI", BUTTON.encode(), 3, 0x1209, 0xE570, 1, 0) + bytes(4 * 4 * 64))
        fcntl.ioctl(self.file, UI_DEV_CREATE)
        made = lambda: set(pathlib.Path("/dev/input").glob("event*")) - before
        until("the device is there", made)
        self.path = made().pop()

    def key(self, key, value):
        for kind, code, value in ((EV_KEY, key, value), (EV_SYN, 0, 0)):
            os.write(self.file, struct.pack("llHHi", 0, 0, kind, code, value))
        return time.monotonic()

    def remove(self):
        if self.file is not None:
            fcntl.ioctl(self.file, UI_DEV_DESTROY)
            os.close(self.file)
            self.file = None


def until(what, is_so):
    begun = time.monotonic()
    while not is_so():
        if time.monotonic() > begun + WITHIN_S:
            raise Wrong(f"{what}: not so in {WITHIN_S} s")
        time.sleep(0.02)


def trigger(estop, name):
    triggers = estop.emergency("status")[1]["triggers"]
    return next(trigger for trigger in triggers if trigger["name"] == name)


def works(estop, name):
    return trigger(estop, name)["working"]


def state(estop):
    return estop.emergency("status")[1]["state"]


def presses(estop):
    return estop.errors().count("EMERGENCY STOP by")


def normally_open(estop, chip, rounds):
    """The falling edge presses. The rising one, and a glitch shorter than the debounce time, do not."""
    until("the line works", lambda: works(estop, "gpio"))
    if chip.debounce_us() != 100_000:
        raise Wrong(f"the kernel debounces {chip.debounce_us()} µs")
    times = drill(estop, "gpio", lambda _: chip.pull("down"), rounds, lambda _: chip.pull("up"))
    before = presses(estop)
    for _ in range(3):
        chip.pull("down")
        time.sleep(0.02)
        chip.pull("up")
        time.sleep(0.3)
    if (state(estop), presses(estop)) != ("running", before):
        raise Wrong(f"a glitch pressed: {estop.errors()[-300:]}")
    return times


def held(estop, chip, _rounds):
    """A button that is still held when the system is cleared presses again."""
    chip.pull("down")
    until("pressed", lambda: state(estop) == "shutdown")
    told = len(estop.errors())
    estop.unlock()
    until("pressed again", lambda: presses(estop) and "still held" in estop.errors()[told:])
    chip.pull("up")
    gate = gate_us(estop, told)
    # It is let go of once the kernel has found the line calm.
    time.sleep(0.3)
    estop.unlock()
    time.sleep(1.5)
    if state(estop) != "running":
        raise Wrong("pressed although nobody holds it")
    return [(gate, None)]


def lost(estop, chip, _rounds):
    """A chip that is taken away is an alarm; put back, its button presses again."""
    chip.pull_out()
    until("the loss is noticed", lambda: not works(estop, "gpio"))
    if state(estop) != "running":
        raise Wrong("a lost line pressed with on_lost: alarm")
    chip.plug_in()
    until("the line is back", lambda: works(estop, "gpio"))
    return drill(estop, "gpio", lambda _: chip.pull("down"), 1, lambda _: chip.pull("up"))


def normally_closed(estop, chip, rounds):
    """The rising edge presses. The simulator's line follows the pull-up at the start, as with a cut wire: that presses."""
    until("a cut wire presses at the start", lambda: state(estop) == "shutdown")
    closed = lambda _: (chip.pull("down"), time.sleep(0.3))
    closed(estop)
    estop.unlock()
    return drill(estop, "gpio", lambda _: chip.pull("up"), rounds, closed)


def lost_kills(estop, chip, _rounds):
    """With `on_lost: kill`, nothing runs without the line."""
    until("the line works", lambda: works(estop, "gpio"))
    told = len(estop.errors())
    chip.pull_out()
    until("the loss presses", lambda: state(estop) == "shutdown")
    times = [(gate_us(estop, told), None)]
    estop.unlock()
    until("it presses again", lambda: state(estop) == "shutdown")
    chip.plug_in()
    until("the line is back", lambda: works(estop, "gpio"))
    estop.unlock()
    time.sleep(1.5)
    if state(estop) != "running":
        raise Wrong("pressed although the line is back")
    return times


def usb(estop, device, rounds):
    """The key going down presses; another key, a repeat and a release do not, and nobody else reads the keys."""
    until("the button works", lambda: works(estop, "button"))
    with open(device.path, "rb", buffering=0) as other:
        times = drill(estop, "button", lambda _: device.key(KEY_STOP, 1), rounds, lambda _: device.key(KEY_STOP, 0))
        if select.select([other], [], [], 0.2)[0]:
            raise Wrong("somebody else reads the button")
    before = presses(estop)
    device.key(KEY_A, 1)
    device.key(KEY_A, 0)
    time.sleep(0.5)
    if (state(estop), presses(estop)) != ("running", before):
        raise Wrong("another key pressed")
    return times


def usb_pulled_out(estop, device, _rounds):
    """A device that is pulled out is an alarm; plugged in again it is found by its name, and presses."""
    until("the button works", lambda: works(estop, "button"))
    device.remove()
    until("the loss is noticed", lambda: not works(estop, "button"))
    if state(estop) != "running":
        raise Wrong("a lost button pressed with on_lost: alarm")
    again = Device()
    until("the button is back", lambda: works(estop, "button"))
    times = drill(estop, "button", lambda _: again.key(KEY_STOP, 1), 1, lambda _: again.key(KEY_STOP, 0))
    again.remove()
    return times


def on_a_line(binaries, folder, model, name, more, drills, rounds):
    """Rows of one estop with one simulated chip."""
    chip = Chip(name, folder / f"{name}-chip")
    config = f"triggers: {{gpio: {{chip: {chip.link}, line: {LINE}{more}}}}}"
    yield from on_an_estop(Estop(binaries, folder / name, model, config), chip, drills, rounds)
    chip.remove()


def on_a_device(binaries, folder, model, how, drills, rounds):
    device = Device()
    where = f'name: "{BUTTON}"' if how == "name" else f"device: {device.path}"
    estop = Estop(binaries, folder / f"usb-{how}", model, f"triggers: {{button: {{{where}, key: KEY_STOP}}}}")
    yield from on_an_estop(estop, device, drills, rounds)
    device.remove()


def on_an_estop(estop, wire, drills, rounds):
    for shown, test in drills:
        try:
            yield shown, test(estop, wire, rounds)
        except Wrong as wrong:
            triggers = estop.emergency("status")[1]["triggers"]
            yield shown, f"FAILED: {wrong}; {triggers[-1]}; {wire.__dict__}; {estop.errors()[-300:]}"
            break
    estop.end()


def here(binaries, rounds):
    """All rows, on the kernel this runs on."""
    with tempfile.TemporaryDirectory(prefix="estop-gpio-") as folder:
        folder = pathlib.Path(folder)
        model, url = model_started(binaries, HERE / "slow.json")
        try:
            opens = [("GPIO line, normally open", normally_open), ("GPIO line, held while cleared", held), ("GPIO line, chip lost and back", lost)]
            yield from on_a_line(binaries, folder, url, "open", "", opens, rounds)
            closes = [("GPIO line, normally closed", normally_closed)]
            yield from on_a_line(binaries, folder, url, "closed", ", normally_closed: true", closes, rounds)
            kills = [("GPIO line, lost with on_lost: kill", lost_kills)]
            yield from on_a_line(binaries, folder, url, "kills", ", on_lost: kill", kills, rounds)
            if pathlib.Path("/dev/uinput").exists():
                yield from on_a_device(binaries, folder, url, "path", [("USB button by path (uinput)", usb)], rounds)
                yield from on_a_device(binaries, folder, url, "name", [("USB button pulled out and back (uinput)", usb_pulled_out)], rounds)
        finally:
            model.terminate()
            model.wait()


def can_load_here():
    """Whether this machine's kernel has the simulator and this user may use it."""
    modprobe = shutil.which("modprobe", path="/usr/sbin:/sbin")
    if os.geteuid() != 0 or not modprobe:
        return False
    for module in ("gpio-sim", "uinput"):
        subprocess.run([modprobe, module], capture_output=True, check=False)
    return SIMULATORS.exists()


def rows(binaries, rounds, kernel, may_fetch):
    """The rows of the drill's table: (name, times or what is wrong)."""
    try:
        if can_load_here():
            return list(here(binaries, rounds))
        if not may_fetch and not guest.is_prepared(kernel):
            raise guest.Skipped("run tests/triggers/gpio.py once: it fetches a Debian kernel (up to 225 MB)")
        guest.prepare(kernel)
        return in_the_guest(binaries, rounds, kernel)
    except guest.Skipped as why:
        return [("GPIO line (gpio-sim), USB button (uinput)", f"skipped: {why}")]


def in_the_guest(binaries, rounds, kernel):
    with tempfile.TemporaryDirectory(prefix="estop-guest-out-") as out:
        command = f"{sys.executable} -B {HERE / 'gpio.py'} --inside /mnt/rows.json --binaries {binaries} --rounds {rounds}"
        console = guest.boot(kernel, command, out)
        said = pathlib.Path(out) / "rows.json"
        if not said.exists():
            return [("GPIO line (gpio-sim in QEMU)", f"FAILED: {console[-1500:]}")]
        return [(f"{name}, QEMU", times) for name, times in json.loads(said.read_text())]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--guest", type=pathlib.Path, default=KERNEL, help="keeps the guest's kernel")
    parser.add_argument("--inside", type=pathlib.Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    binaries = args.binaries.resolve()
    if args.inside:
        args.inside.write_text(json.dumps(list(here(binaries, args.rounds))))
        return
    from run import has_failed, show
    found = rows(binaries, args.rounds, args.guest, may_fetch=True)
    show(found)
    sys.exit(1 if has_failed(found) else 0)


if __name__ == "__main__":
    main()
