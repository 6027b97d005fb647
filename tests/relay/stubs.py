"""An app and two platforms, as small as can be: they keep what they were sent and answer as the real ones do."""

import http.server
import json
import socket
import threading

TELEGRAM = {
    "getMe": {"id": 1, "is_bot": True, "first_name": "Bot", "username": "a_bot"},
    "sendMessage": {"message_id": 7, "date": 1, "chat": {"id": 5, "type": "private"}, "text": "Hi"},
    "sendDocument": {"message_id": 8, "date": 1, "chat": {"id": 5, "type": "private"}},
}


class Stub(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        with self.server.lock:
            headers = {name.lower(): value for name, value in self.headers.items()}
            self.server.seen.append((self.path, headers, body))
        self.answer(self.path.split("?")[0].rsplit("/", 1)[-1])

    do_GET = do_POST

    def answer(self, method):
        if method == "getUpdates":
            # A long poll: nothing to say until the other side hangs up.
            self.server.polling.set()
            try:
                self.connection.recv(1)
            except ConnectionError:
                pass
            self.server.hung_up.set()
            self.close_connection = True
            return
        if method in TELEGRAM:
            said = {"ok": True, "result": TELEGRAM[method]}
        else:
            said = {"ok": True, "ts": "1.2", "channel": "C1", "user_id": "U1"}
        said = json.dumps(said).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Stub)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.lock, self.seen = threading.Lock(), []
        self.polling, self.hung_up = threading.Event(), threading.Event()
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server_address[1]}"
