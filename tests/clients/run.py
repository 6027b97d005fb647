"""Runs real clients through estop and says which of them misbehave. Started by scripts/clients; standard library only.

Installing needs the network. Everything after it runs in a network namespace with nothing but loopback, where the
machine allows that: no client can phone home, and none can reach a real model by mistake.
"""

import argparse
import contextlib
import fcntl
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time

import report
from clients import CLIENTS
from counter import Counter
from install import install
from process import adopt_orphans
from servers import Estop, FakeModel, version_of
from trial import Trial
from work import record_all

OFFLINE_VARIABLE = "ESTOP_CLIENTS_OFFLINE"


def main():
    options = read_options()
    chosen = choose(options)
    started = time.monotonic()
    installed = install(list(dict.fromkeys(client.env for client in chosen)), options.cache)
    if time.monotonic() - started > 1:
        print(f"installed in {time.monotonic() - started:.0f} s", flush=True)
    if options.install_only:
        return 0
    offline = cut_network()
    adopt_orphans()
    # A run that is told to end still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by a signal"))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-clients-"))
    try:
        if options.work:
            return work_all(chosen, installed, options, folder)
        results = run_all(chosen, installed, options, folder)
    finally:
        if options.keep:
            print(f"logs: {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    seconds = time.monotonic() - started
    if options.all and options.report and not options.only:
        report.write(results, options.report, version_of(options.estop), offline, seconds)
    bad = [result.client.name for result in results if result.faults]
    print(f"{len(results)} clients, {len(bad)} misbehaved{': ' + ', '.join(bad) if bad else ''}, {seconds:.0f} s")
    return 1 if bad else 0


def read_options():
    parser = argparse.ArgumentParser(prog="scripts/clients", description="Runs real clients through estop.")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--fast", action="store_true", help="the vendors' libraries only (the default)")
    which.add_argument("--all", action="store_true", help="every client, and write docs/clients.md")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="these clients only")
    parser.add_argument("--keep", action="store_true", help="keep the logs of the run, and say where")
    parser.add_argument("--direct", action="store_true", help="without estop, straight to the fake model")
    parser.add_argument("--install-only", action="store_true", help="install and stop")
    parser.add_argument("--work", type=pathlib.Path, metavar="FILE", help="have them do the work of tasks.py, and record it")
    parser.add_argument("--task", nargs="+", metavar="NAME", help="of the work, these tasks only")
    parser.add_argument("--cache", type=pathlib.Path, required=True, help="where clients are installed")
    parser.add_argument("--estop", type=pathlib.Path, required=True, help="the program under test")
    parser.add_argument("--fake-model", type=pathlib.Path, required=True, help="the model it stands before")
    parser.add_argument("--report", type=pathlib.Path, help="where --all writes its table")
    return parser.parse_args()


def choose(options):
    if options.only:
        known = {client.name: client for client in CLIENTS}
        unknown = [name for name in options.only if name not in known]
        if unknown:
            sys.exit(f"unknown: {', '.join(unknown)}; known: {', '.join(known)}")
        return [known[name] for name in options.only]
    return CLIENTS if options.all else [client for client in CLIENTS if client.fast]


def run_all(chosen, installed, options, folder):
    results = []
    with contextlib.ExitStack() as at_end:
        model = FakeModel(options.fake_model, folder)
        at_end.callback(model.stop)
        estop = None
        if not options.direct:
            estop = Estop(options.estop, folder, model.port)
            at_end.callback(estop.stop)
        counter = Counter(estop.port if estop else model.port)
        for client in chosen:
            started = time.monotonic()
            result = Trial(client, installed, counter, model, estop, folder).run(with_stop=estop is not None)
            results.append(result)
            print(f"{summary(result)}  {time.monotonic() - started:.0f} s", flush=True)
    if estop and (damage := estop.verify()):
        sys.exit(f"the journal of the run is not whole: {damage}")
    return results


def work_all(chosen, installed, options, folder):
    """Records what the clients do at the work of tasks.py."""
    started = time.monotonic()
    with contextlib.ExitStack() as at_end:
        model = FakeModel(options.fake_model, folder)
        at_end.callback(model.stop)
        estop = Estop(options.estop, folder, model.port, stop_loops=False)
        at_end.callback(estop.stop)
        counter = Counter(estop.port)
        left_out = record_all(chosen, installed, counter, model, estop, folder, options.work, options.task)
    print(f"{options.work}: {len(left_out)} left out{': ' + ', '.join(left_out) if left_out else ''}, {time.monotonic() - started:.0f} s")
    return 1 if left_out else 0


def summary(result):
    text = f"{'FAIL' if result.faults else 'ok  '} {result.client.name:26}"
    for mode in ("plain", "stream", "tool"):
        verdict = getattr(result, mode)
        text += f" {mode} {verdict if verdict in ('ok', '-') else 'NO'}"
    if result.status:
        text += f", let {result.requests_before} through, then {result.status}, {result.requests_after} after"
        text += f", sentence {result.sentence}, exit {result.exit} in {result.seconds:.1f} s"
    return text


def cut_network():
    """Starts this program again without a network, if that can be done. Answers whether it is without one."""
    if os.environ.get(OFFLINE_VARIABLE):
        raise_loopback()
        return True
    unshare = ["unshare", "--user", "--map-root-user", "--net"]
    can = shutil.which("unshare") and subprocess.run([*unshare, "true"], capture_output=True).returncode == 0
    if not can:
        print("note: no user namespaces here, so the clients keep their network", flush=True)
        return False
    os.environ[OFFLINE_VARIABLE] = "1"
    os.execvp("unshare", [*unshare, sys.executable, *sys.argv])


def raise_loopback():
    """A new network namespace has a loopback device that is down."""
    siocgifflags, siocsifflags, iff_up = 0x8913, 0x8914, 1
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, siocgifflags, struct.pack("16sh22x", b"lo", 0))
        flags = struct.unpack("16sh22x", answer)[1]
        fcntl.ioctl(any_socket, siocsifflags, struct.pack("16sh22x", b"lo", flags | iff_up))


if __name__ == "__main__":
    sys.exit(main())
