"""An estop that says what it is told to, over TCP and a Unix socket, and remembers what it was asked."""

import contextlib
import http.server
import json
import logging
import os
import socketserver
import tempfile
import threading

ALLOW = {"permission": "allow", "reason": None, "context": None, "end": False}
# What is said in passing is not for whoever runs the tests.
logging.getLogger("estop_client").propagate = False
logging.getLogger("estop_client").addHandler(logging.NullHandler())


def deny(reason, end=False):
    return {"permission": "deny", "reason": reason, "context": None, "end": end}


class FakeEstop:
    """`answer(path, body)` gives (status, body); a body of bytes is sent as it is."""

    def __init__(self, answer=None):
        self.seen = []
        self.lock = threading.Lock()
        self.answer = answer or (lambda path, body: (200, ALLOW))

    def paths(self):
        return [path for path, _, _ in self.seen]

    def bodies(self, path):
        return [body for seen, _, body in self.seen if seen == path]


def handler(fake):
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            data = self.rfile.read(int(self.headers.get("content-length") or 0))
            body = json.loads(data) if data else None
            with fake.lock:
                fake.seen.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            status, said = fake.answer(self.path, body)
            said = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.wfile.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(said)}\r\n\r\n".encode() + said)

        def address_string(self):
            return "unix"

        def log_message(self, *_):
            pass

    return Handler


class _Unix(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class _Tcp(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True


@contextlib.contextmanager
def running(server):
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def on_socket(fake):
    """The path of its socket."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "estop.sock")
        with running(_Unix(path, handler(fake))):
            yield path


@contextlib.contextmanager
def on_port(fake):
    """Its URL."""
    with running(_Tcp(("127.0.0.1", 0), handler(fake))) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"
