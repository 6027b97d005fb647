"""A relay in front of estop that counts: it passes bytes on untouched and notes every request and its answer.

Requests that estop refuses never reach the model, so this is the only place where a client that goes on asking
after a refusal shows. HTTP/1.1 only, which is what every client speaks to a plain http:// address.
"""

import asyncio
import contextlib
import threading
import time

# Enough of an answer to quote it when something is wrong.
SAMPLE_BYTES_MAX = 4096


class Exchange:
    """One request and what became of it. Times are seconds of time.monotonic()."""

    def __init__(self, head):
        self.method, self.path = head.first_line.split(" ")[:2]
        self.request_head = head.text
        self.asked_at = time.monotonic()
        self.answered_at = None
        self.status = None
        self.content_type = ""
        self.reason = None
        self.answer_head = ""
        self.answer_sample = b""

    def answer(self, head):
        self.answered_at = time.monotonic()
        self.status = int(head.first_line.split(" ")[1])
        self.content_type = head.fields.get("content-type", "")
        self.reason = head.fields.get("x-estop-reason")
        self.answer_head = head.text

    @property
    def answer_text(self):
        return self.answer_sample.decode("utf-8", "replace")

    @property
    def refused(self):
        """estop itself answered a request for a model. (Its answer to a WebSocket is none of these.)"""
        return self.method == "POST" and self.reason is not None

    def __repr__(self):
        return f"{self.method} {self.path} -> {self.status} {self.reason or ''}".rstrip()


class Counter:
    """Listens on a free loopback port and relays to the target until stopped."""

    def __init__(self, target_port):
        self.target_port = target_port
        self.exchanges = []
        self.port = None
        ready = threading.Event()
        threading.Thread(target=self.serve, args=[ready], daemon=True).start()
        ready.wait(10)

    def serve(self, ready):
        async def forever():
            server = await asyncio.start_server(self.relay, "127.0.0.1", 0)
            self.port = server.sockets[0].getsockname()[1]
            ready.set()
            await server.serve_forever()

        asyncio.run(forever())

    def take(self):
        """The exchanges since the last call."""
        taken, self.exchanges = self.exchanges, []
        return taken

    async def relay(self, client_in, client_out):
        try:
            target_in, target_out = await asyncio.open_connection("127.0.0.1", self.target_port)
        except OSError:
            client_out.close()
            return
        waiting = []  # Requests of this connection that have no answer yet, oldest first.
        latest = []  # The exchange whose answer is arriving.

        def on_request(head):
            exchange = Exchange(head)
            waiting.append(exchange)
            self.exchanges.append(exchange)

        def on_answer(head):
            informational = head.first_line.split(" ")[1].startswith("1")
            if waiting and not informational:
                latest[:] = [waiting.pop(0)]
                latest[0].answer(head)

        def on_answer_bytes(data):
            if latest and len(latest[0].answer_sample) < SAMPLE_BYTES_MAX:
                latest[0].answer_sample += data

        def answer_has_no_body(head):
            status = head.first_line.split(" ")[1]
            method = waiting[0].method if waiting else ""
            return method == "HEAD" or status in ("204", "304") or status.startswith("1")

        requests = Reader(on_request, lambda data: None, no_body=lambda head: False, until_close=False)
        answers = Reader(on_answer, on_answer_bytes, no_body=answer_has_no_body, until_close=True)
        await asyncio.gather(pump(client_in, target_out, requests), pump(target_in, client_out, answers))


async def pump(source, sink, reader):
    """Passes bytes on and lets the reader look at them."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError):
        while data := await source.read(65536):
            reader.feed(data)
            sink.write(data)
            await sink.drain()
    with contextlib.suppress(OSError):
        sink.close()


class Head:
    def __init__(self, text):
        self.text = text
        lines = text.split("\r\n")
        self.first_line = lines[0]
        pairs = (line.partition(":") for line in lines[1:] if line)
        self.fields = {name.strip().lower(): value.strip() for name, _, value in pairs}


class Reader:
    """Finds the heads in one direction of a connection, stepping over bodies by length or by chunks."""

    def __init__(self, on_head, on_body, no_body, until_close):
        self.on_head = on_head
        self.on_body = on_body
        self.no_body = no_body
        self.until_close = until_close
        self.buffer = b""
        self.step = self.read_head
        self.left = 0

    def feed(self, data):
        self.buffer += data
        while self.step():
            pass

    def read_head(self):
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return False
        head = Head(self.buffer[:end].decode("latin-1"))
        self.buffer = self.buffer[end + 4 :]
        bodiless = self.no_body(head)
        self.on_head(head)
        if head.first_line.split(" ")[1] == "101":
            self.step = self.read_until_close
        elif bodiless:
            self.step = self.read_head
        elif "chunked" in head.fields.get("transfer-encoding", ""):
            self.step = self.read_chunk_size
        elif "content-length" in head.fields:
            self.left = int(head.fields["content-length"])
            self.step = self.read_length
        elif self.until_close:
            self.step = self.read_until_close
        return True

    def read_length(self):
        taken = self.take(self.left)
        self.left -= taken
        if self.left == 0:
            self.step = self.read_head
            return True
        return False

    def read_until_close(self):
        self.take(len(self.buffer))
        return False

    def read_chunk_size(self):
        line, found, rest = self.buffer.partition(b"\r\n")
        if not found:
            return False
        self.buffer = rest
        size = int(line.split(b";")[0], 16)
        self.left = size
        self.step = self.read_chunk if size else self.read_trailer
        return True

    def read_chunk(self):
        self.left -= self.take(self.left)
        if self.left == 0 and len(self.buffer) >= 2:
            self.buffer = self.buffer[2:]
            self.step = self.read_chunk_size
            return True
        return False

    def read_trailer(self):
        line, found, rest = self.buffer.partition(b"\r\n")
        if not found:
            return False
        self.buffer = rest
        if not line:
            self.step = self.read_head
        return True

    def take(self, size):
        data, self.buffer = self.buffer[:size], self.buffer[size:]
        self.on_body(data)
        return len(data)
