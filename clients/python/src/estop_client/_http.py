"""One request and its answer, over a Unix socket or TCP, in a bounded time. A connection for each: nothing is shared.

The request is written at once, and the answer read even if writing broke off: estop refuses who may not ask without
waiting for the rest, and that refusal must not be taken for silence.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import re
import socket
import ssl
import time
from typing import Tuple
from urllib.parse import SplitResult, urlsplit

from ._said import Unreachable
from ._settings import Settings

# What estop answers here has some hundred bytes.
_ANSWER_MAX = 1024 * 1024
_QUEUE_FULL_S = 0.005
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d{1,9})\r?$", re.IGNORECASE | re.MULTILINE)


def exchange(to: Settings, path: str, body: bytes) -> Tuple[int, bytes]:
    """Status and body of the answer to a POST. Raises `Unreachable` if there is none."""
    deadline = time.monotonic() + to.timeout
    try:
        with _connected(to, deadline) as sock:
            sock.settimeout(_left(deadline))
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                sock.sendall(_request(to, path, body))
            answer = http.client.HTTPResponse(_Read(_read_all(sock, deadline)), method="POST")  # type: ignore[arg-type]
        answer.begin()
        return answer.status, answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Unreachable(_why(to, error)) from None


def _connected(to: Settings, deadline: float) -> socket.socket:
    if to.socket is not None:
        return _unix(to.socket, deadline)
    parts = urlsplit(to.url)
    sock = socket.create_connection((parts.hostname or "", _port(parts)), to.timeout)
    if parts.scheme == "http":
        return sock
    try:
        return ssl.create_default_context().wrap_socket(sock, server_hostname=parts.hostname)
    except BaseException:
        sock.close()
        raise


def _unix(path: str, deadline: float) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        while True:
            sock.settimeout(_left(deadline))
            with contextlib.suppress(BlockingIOError):
                sock.connect(path)
                return sock
            # Many ask at once and the queue of the socket is full; with a time-out the system does not wait for it.
            time.sleep(_QUEUE_FULL_S)
    except BaseException:
        sock.close()
        raise


def _request(to: Settings, path: str, body: bytes) -> bytes:
    parts = urlsplit(to.url)
    lines = [
        f"POST {'' if to.socket else parts.path}{path} HTTP/1.1",
        f"Host: {'localhost' if to.socket else parts.netloc}",
        "Content-Type: application/json",
        "Accept: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
    ]
    if to.key:
        lines.append(f"Authorization: Bearer {to.key}")
    if to.ticket:
        lines.append(f"x-estop-ticket: {to.ticket}")
    return "\r\n".join([*lines, "", ""]).encode("ascii") + body


def _port(parts: SplitResult) -> int:
    return parts.port or (443 if parts.scheme == "https" else 80)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise socket.timeout("timed out")
    return left


def _read_all(sock: socket.socket, deadline: float) -> bytes:
    """Reads the whole answer. The time-out of a socket is for each read: one byte a second would pass it."""
    data = bytearray()
    while not _is_whole(data):
        sock.settimeout(_left(deadline))
        part = sock.recv(65536)
        if not part:
            break
        data += part
        if len(data) > _ANSWER_MAX:
            raise OSError("the answer is too long to be estop's")
    return bytes(data)


def _is_whole(data: bytearray) -> bool:
    """Whether all is there that was announced; without an announcement the end of the connection is the end."""
    head, found, body = data.partition(b"\r\n\r\n")
    length = _LENGTH.search(head) if found else None
    return length is not None and len(body) >= int(length.group(1))


class _Read:
    """An answer that was read whole, as `HTTPResponse` wants it."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def makefile(self, *_: object) -> io.BytesIO:
        return io.BytesIO(self._data)


def _why(to: Settings, error: Exception) -> str:
    if isinstance(error, (socket.timeout, TimeoutError)):
        why = f"no answer within {to.timeout:g} s"
    elif isinstance(error, FileNotFoundError):
        why = "there is no such socket"
    elif isinstance(error, http.client.HTTPException):
        why = "it closed the connection without an answer"
    else:
        why = str(error) or type(error).__name__
    return f"estop cannot be reached at {to.place}: {why}"
