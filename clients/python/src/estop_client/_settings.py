"""Where estop is and who asks: from arguments, else from the environment."""

from __future__ import annotations

import os
import pathlib
from dataclasses import dataclass, field, replace
from typing import Mapping, Optional
from urllib.parse import urlsplit

_DEFAULT_URL = "http://127.0.0.1:4101"
_POLICIES = ("deny", "allow")


@dataclass(frozen=True)
class Settings:
    """Everything a request needs. Its repr has no secret."""

    socket: Optional[str]
    """The owner's socket; None = `url`."""
    url: str
    key: Optional[str] = field(repr=False)
    ticket: Optional[str] = field(repr=False)
    agent: Optional[str]
    run: Optional[str]
    chosen: Optional[str]
    """`on_unreachable` as somebody set it."""
    timeout: float

    @property
    def denies_unreached(self) -> bool:
        """Inside a run nothing passes without estop; outside of one everything does, unless somebody chose."""
        inside = self.run is not None or self.ticket is not None
        return self.chosen == "deny" if self.chosen else inside

    @property
    def place(self) -> str:
        return self.socket or self.url

    def in_run(self, run: str) -> Settings:
        return replace(self, run=run)


def settings(
    url: Optional[str], key: Optional[str], agent: Optional[str], run: Optional[str], socket: Optional[str],
    on_unreachable: Optional[str], timeout: float, env: Optional[Mapping[str, str]] = None,
) -> Settings:
    """Arguments come before the environment, the socket of `estop run` before an address set for everything."""
    env = os.environ if env is None else env

    def of(variable: str) -> Optional[str]:
        return env.get(variable) or None

    key = _in_a_header("the key", key or of("ESTOP_KEY"))
    if url is None and socket is None:
        socket = of("ESTOP_SOCKET")
        url = None if socket else of("ESTOP_ADMIN_URL")
        if socket is None and url is None and key is None:
            socket = _default_socket(env)
    if url is not None and socket is not None:
        raise ValueError("give url or socket, not both")
    chosen = on_unreachable or of("ESTOP_ON_UNREACHABLE")
    if chosen is not None and chosen not in _POLICIES:
        raise ValueError(f"on_unreachable must be 'deny' or 'allow', not {chosen!r}")
    if not timeout > 0:
        raise ValueError("timeout must be more than 0 seconds")
    ticket = _in_a_header("ESTOP_TICKET", of("ESTOP_TICKET"))
    if ticket:
        # It names agent and run, and estop takes no others beside it.
        agent, run = of("ESTOP_AGENT") or agent, of("ESTOP_RUN") or run
    return Settings(
        socket=None if socket is None else str(socket), url=_checked(url or _DEFAULT_URL), key=key, ticket=ticket,
        agent=agent or of("ESTOP_AGENT"), run=run or of("ESTOP_RUN"), chosen=chosen, timeout=timeout,
    )


def _default_socket(env: Mapping[str, str]) -> str:
    """Where `estop serve` has it if nobody says otherwise."""
    state = env.get("XDG_STATE_HOME")
    base = pathlib.Path(state) if state else pathlib.Path(env.get("HOME") or "~").expanduser() / ".local" / "state"
    return str(base / "estop" / "estop.sock")


def _checked(url: str) -> str:
    parts = urlsplit(url)
    if "@" in parts.netloc:
        # Not repeated here: it holds a secret.
        raise ValueError("the url must not have a name or a password in it; use key")
    is_plain = all("!" <= char <= "~" for char in url)
    if not is_plain or parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError(f"the url must look like {_DEFAULT_URL}, not {url!r}")
    # One that is none is an error here, and not at the first question.
    _ = parts.port
    return url.rstrip("/")


def _in_a_header(what: str, secret: Optional[str]) -> Optional[str]:
    secret = (secret or "").strip() or None
    if secret and not all("!" <= char <= "~" for char in secret):
        raise ValueError(f"{what} has characters that no key has (not shown)")
    return secret
