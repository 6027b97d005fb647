#!/usr/bin/env python3
"""Presses the red button while the disk hangs and every worker waits for it (KS-11).

Usage: tests/faults/hanging.py [--streams N] [--binaries FOLDER]   (needs strace and a built estop)

Endless streams run through estop. Then `strace` holds up each write and sync of the data directory's files for 20 s, and
requests that must be written down block the workers. The button is pressed over the owner's socket. Every connection to the
upstream must be closed while the workers are still blocked, and estop must say that they are. How long it took is printed.
"""

import argparse
import asyncio
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from daemon import OwnerConnection  # noqa: E402

HANG_S = 20
CONFIG = """
listen: {{data: 127.0.0.1:0, admin: 127.0.0.1:0}}
providers: {{openai: {{base_url: "http://127.0.0.1:{port}"}}}}
watchdog: {{scope: off}}
"""


class Upstream:
    """A model: streams for ever, or answers at once where the prompt says `quick`."""

    def __init__(self):
        self.open = 0
        self.closed_at = None
        self.none_open = asyncio.Event()

    async def serve(self, reader, writer):
        streams = False
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(next(l for l in head.lower().split(b"\r\n") if l.startswith(b"content-length")).split(b":")[1])
                if b"quick" in await reader.readexactly(length):
                    body = b'{"choices":[{"message":{"content":"ok"}}],"usage":{"prompt_tokens":1,"completion_tokens":1}}'
                    writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
                    continue
                streams = True
                self.open += 1
                self.none_open.clear()
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n")
                writer.write(b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n')
                # Nothing more comes from a client: this ends with its connection.
                await reader.read()
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.open -= streams
            if streams and self.open == 0:
                self.closed_at = time.monotonic()
                self.none_open.set()
            writer.close()


def ask(words, stream):
    body = json.dumps({"model": "m", "stream": stream, "max_tokens": 5, "messages": [{"role": "user", "content": words}]})
    head = "POST /agents/{}/openai/v1/chat/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: {}\r\n\r\n"
    return lambda agent: (head.format(agent, len(body)) + body).encode()


def owner(folder, method, path, body=None):
    connection = OwnerConnection(folder / "data" / "estop.sock", 2 * HANG_S)
    connection.request(method, path, body and json.dumps(body), {"content-type": "application/json"})
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


async def open_streams(port, count):
    wires = []
    for number in range(count):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(ask("hello", True)(f"agent-{number % 20}"))
        wires.append((reader, writer))
    for reader, _ in wires:
        await asyncio.wait_for(reader.readuntil(b"delta"), 60)
    return wires


async def wait_for(what, holds, within_s):
    end = time.monotonic() + within_s
    while not await asyncio.to_thread(holds):
        if time.monotonic() > end:
            raise SystemExit(f"FAILED: waited {within_s} s in vain: {what}")
        await asyncio.sleep(0.1)


async def press(binary, folder, count):
    upstream = Upstream()
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, backlog=4096)
    (folder / "estop.yaml").write_text(CONFIG.format(port=server.sockets[0].getsockname()[1]))
    line = [str(binary), "serve", "--config", "estop.yaml", "--data-dir", "data"]
    estop = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    tracer = None
    try:
        port = int(estop.stdout.readline().strip().rsplit(":", 1)[1])
        wires = await open_streams(port, count)
        print(f"{upstream.open} streams are open")
        calls = "write,pwrite64,fdatasync,fsync"
        files = [word for file in (folder / "data").rglob("*") if file.is_file() for word in ("-P", str(file))]
        hang = ["-e", f"trace={calls}", "-e", f"inject={calls}:delay_enter={HANG_S * 1_000_000}"]
        tracer = subprocess.Popen(["strace", "-f", "-qq", "-o", "/dev/null", *files, *hang, "-p", str(estop.pid)])
        await wait_for("strace is attached", lambda: "TracerPid:\t0" not in pathlib.Path(f"/proc/{estop.pid}/status").read_text(), 10)
        for _ in range(32):
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(ask("quick", False)("asks"))
        stuck = lambda: [part["name"] for part in owner(folder, "GET", "/api/emergency/status")[1]["stuckParts"]]
        await wait_for("estop says that a worker is stuck", lambda: any(name.startswith("worker") for name in stuck()), 15)
        print(f"stuck: {', '.join(await asyncio.to_thread(stuck))}; /readyz {owner(folder, 'GET', '/readyz')[0]}")
        begun = time.monotonic()
        status, answer = await asyncio.to_thread(owner, folder, "POST", "/api/emergency/kill", {"reason": "manual"})
        answered = time.monotonic() - begun
        assert status == 200 and answer["stopped"]["model_calls"] >= count, answer
        await asyncio.wait_for(upstream.none_open.wait(), HANG_S / 2)
        closed = upstream.closed_at - begun
        still = await asyncio.to_thread(stuck)
        assert any(name.startswith("worker") for name in still), f"the workers run again, so this proves nothing: {still}"
        took = answer["took"]
        print(f"gate shut after {took['gate_us']} us, all cancelled after {took['cut_us']} us, answered after {answered * 1000:.0f} ms")
        print(f"all {count} upstream sockets were closed {closed * 1000:.0f} ms after the press, with blocked workers: {', '.join(still)}")
        for reader, _ in wires:
            try:
                await asyncio.wait_for(reader.read(), HANG_S / 2)
            except OSError:
                pass
        print(f"all {count} clients were cut off {(time.monotonic() - begun) * 1000:.0f} ms after the press")
    finally:
        if tracer:
            tracer.kill()
            tracer.wait()
        estop.kill()
        estop.wait()
        server.close()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--streams", type=int, default=300)
    parser.add_argument("--binaries", type=pathlib.Path, default=ROOT / "target" / "debug")
    args = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("strace is missing: apt-get install --yes strace")
    if subprocess.run(["strace", "-qq", "-o", "/dev/null", "true"], capture_output=True).returncode != 0:
        sys.exit("This machine does not let strace look at programs: nothing was tested.")
    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(press(args.binaries.resolve() / "estop", pathlib.Path(folder), args.streams))


if __name__ == "__main__":
    main()
