"""The client: asks, tells, and moves runs. Everything else of this package is a form of it."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
from typing import Any, Callable, Dict, Iterator, Mapping, Optional, TypeVar, Union, overload
from urllib.parse import quote

from . import _guard
from ._http import exchange
from ._plain import to_bytes
from ._said import Refused, RunInfo, Unreachable, Verdict
from ._settings import Settings, settings

log = logging.getLogger("estop_client")
Tool = TypeVar("Tool", bound=Callable[..., Any])
_TIMEOUT_S = 5.0
# A proxy before estop says so when estop itself does not answer.
_NOT_ESTOP = (502, 504)
_CONFLICT = 409
_NOT_FOUND = 404


class Estop:
    """A connection to estop for one agent, and perhaps one run. Threads may share it.

    What is left out comes from the environment: `ESTOP_SOCKET`, `ESTOP_TICKET`, `ESTOP_AGENT` and `ESTOP_RUN`, which
    `estop run` sets; else `ESTOP_ADMIN_URL` and `ESTOP_KEY`; else the owner's socket in the default data directory.
    `on_unreachable` ("deny" or "allow", `ESTOP_ON_UNREACHABLE`) is "deny" inside a run and "allow" outside of one.
    """

    def __init__(
        self, url: Optional[str] = None, key: Optional[str] = None, agent: Optional[str] = None,
        run: Optional[str] = None, socket: Optional[str] = None, on_unreachable: Optional[str] = None,
        timeout: float = _TIMEOUT_S,
    ) -> None:
        self._to = settings(url, key, agent, run, socket, on_unreachable, timeout)
        self._outage = _Outage()

    def __repr__(self) -> str:
        return f"Estop(place={self._to.place!r}, agent={self.agent!r}, run={self.run_name!r})"

    @property
    def agent(self) -> str:
        return self._to.agent or "default"

    @property
    def run_name(self) -> Optional[str]:
        """None: the agent's implicit run."""
        return self._to.run

    @property
    def headers(self) -> Dict[str, str]:
        """For the client of your model, so that its requests belong to the same agent and run. No secrets."""
        named = {"x-estop-agent": self._to.agent, "x-estop-run": self._to.run}
        return {name: value for name, value in named.items() if value}

    # What an agent does.

    def pre_tool_use(self, tool: str, args: Optional[Mapping[str, Any]] = None, call: Optional[str] = None) -> Verdict:
        """Asks whether a tool may run. `call` is your id of this call, to be told again afterwards."""
        return self._ask("pre-tool-use", tool=tool, args=args or {}, call=call)

    def post_tool_use(
        self, tool: str, args: Optional[Mapping[str, Any]] = None, result: Any = None, failed: Optional[bool] = None,
        exit_code: Optional[int] = None, call: Optional[str] = None,
    ) -> Verdict:
        """Tells what came of a tool. Without `failed` and `exit_code` estop reads it out of the result."""
        # A result that is None is a result.
        result = "" if result is None else result
        return self._ask(
            "post-tool-use", tool=tool, args=args or {}, call=call, result=result, failed=failed, exit_code=exit_code
        )

    def turn(self, prompt: str) -> Verdict:
        """A person asks something: a turn begins."""
        return self._ask("prompt-submit", prompt=prompt)

    def turn_end(self, last_words: Optional[str] = None) -> Verdict:
        """The agent has answered, and waits."""
        return self._ask("turn-end", last_words=last_words)

    # Steps of a run; `run` does the first and the last of them. One that estop refuses raises `Refused`.
    # None: not reached, and `on_unreachable` is "allow".

    def start(
        self, *, role: Optional[str] = None, attended: bool = False, issue: Optional[str] = None,
        branch: Optional[str] = None, session: Optional[str] = None, labels: Optional[Mapping[str, str]] = None,
        limits: Optional[Mapping[str, Union[int, str]]] = None,
    ) -> Optional[RunInfo]:
        """Begins the run. It must be new, or completed. `limits` (`max_tool_calls`, …) are for this run alone."""
        about = {
            "role": role, "attended": attended, "issue": issue, "branch": branch, "session": session, "labels": labels,
            "limits": limits,
        }
        run = {"agent": self.agent, "run": self._run(), **about}
        try:
            return self._told("/api/runs", run)
        except Refused as refused:
            if refused.status != _NOT_FOUND:
                raise
        # The agent is new. Any hook makes it known, and this one does nothing else to a run that has not begun.
        self._ask("session-end")
        return self._told("/api/runs", run)

    def activate(self) -> Optional[RunInfo]:
        """Begins the run anew after it was completed."""
        return self._step("activate")

    def sleep(self) -> Optional[RunInfo]:
        """The run waits for something: its active time stands still."""
        return self._step("sleep")

    def wake(self) -> Optional[RunInfo]:
        """The run goes on."""
        return self._step("wake")

    def complete(self) -> Optional[RunInfo]:
        """The run is done."""
        return self._step("complete")

    @contextlib.contextmanager
    def run(self, name: str, **about: Any) -> Iterator[Estop]:
        """A run from here to the end of the block: begins it, or goes on with it, and completes it at the end.

        Inside, use what this gives. `about` is as for `start`. Inside `estop run` the run is the supervisor's: it goes
        on, and nothing is completed here.
        """
        inside = self._bound(name)
        inside._begin(about)
        try:
            yield inside
        finally:
            # What is over cannot be refused, and an error of the block matters more than one of its end.
            inside._ask("session-end")

    @overload
    def guard(self, tool: Tool, **options: Any) -> Tool: ...

    @overload
    def guard(self, tool: None = None, **options: Any) -> Callable[[Tool], Tool]: ...

    def guard(self, tool: Optional[Callable[..., Any]] = None, **options: Any) -> Any:
        """Puts estop before a function, plain or `async`: asks before each call, tells after it.

        Also a decorator. `name` is the tool's if not the function's; `on_denied` is "raise" (`ToolDenied`, the default)
        or "return" (the reason becomes the tool's result, for the model to read); `exit_code` reads an exit code out
        of a result (default: its `returncode`, if it has one); `on_context` takes warnings for the model, which
        otherwise are put at the end of results that are texts; `ignore` names parameters that are not the model's.
        """
        if tool is None:
            return lambda tool: _guard.guarded(self, tool, **options)
        return _guard.guarded(self, tool, **options)

    # How it is done.

    def _bound(self, run: str) -> Estop:
        bound = object.__new__(type(self))
        bound._to = self._to if self._to.ticket else self._to.in_run(run)
        bound._outage = self._outage
        return bound

    def _run(self) -> str:
        if not self._to.run:
            raise ValueError("which run? Give its name: Estop(run=…), or `with estop.run(…)`")
        return self._to.run

    def _ask(self, event: str, **body: Any) -> Verdict:
        if self._to.ticket is None:
            # A ticket names both, and nobody can be somebody else beside it.
            body.update(agent=self._to.agent, run=self._to.run)
        try:
            status, answer = self._post(f"/api/hooks/{event}", body)
        except Unreachable as error:
            return self._unreached(error)
        if status == 200:
            return _verdict(answer)
        # estop is there and does not say yes: that is a no, whatever `on_unreachable` is.
        return Verdict(False, str(_refusal(status, answer)))

    def _step(self, step: str) -> Optional[RunInfo]:
        run = quote(f"{self.agent}:{self._run()}", safe=":")
        return self._told(f"/api/runs/{run}/{step}", None)

    def _told(self, path: str, body: Optional[Dict[str, Any]]) -> Optional[RunInfo]:
        try:
            status, answer = self._post(path, body)
        except Unreachable as error:
            if self._unreached(error).allowed:
                return None
            raise
        if status in (200, 201):
            shown: RunInfo = json.loads(answer)
            return shown
        raise _refusal(status, answer)

    def _begin(self, about: Mapping[str, Any]) -> None:
        """By hook, which also goes on with a run that is open; what it is for (`about`) only a step can say."""
        if about and self._to.ticket is None:
            try:
                self.start(**about)
            except Refused as refused:
                # It is there already. Whether it may go on is asked below.
                if refused.status != _CONFLICT:
                    raise
        verdict = self._ask("session-start")
        if not verdict.allowed and not verdict.reached:
            raise Unreachable(verdict.reason)
        verdict.raise_if_denied()

    def _post(self, path: str, body: Optional[Dict[str, Any]]) -> Any:
        status, answer = exchange(self._to, path, b"" if body is None else to_bytes(body))
        if status in _NOT_ESTOP:
            raise Unreachable(f"estop cannot be reached at {self._to.place}: what stands before it answered {status}")
        self._outage.over()
        return status, answer

    def _unreached(self, error: Unreachable) -> Verdict:
        denies = self._to.denies_unreached
        self._outage.begins(str(error), denies)
        what = "denied" if denies else "allowed without it"
        return Verdict(not denies, f"{error}; {what} (on_unreachable)", reached=False)


class _Outage:
    """Says once that estop does not answer, and once that it does again."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lasts = False

    def begins(self, why: str, denies: bool) -> None:
        with self._lock:
            told, self._lasts = self._lasts, True
        if not told:
            what = "are denied until it answers" if denies else "run WITHOUT its guard until it answers"
            log.warning("%s; tools %s (on_unreachable)", why, what)

    def over(self) -> None:
        with self._lock:
            lasted, self._lasts = self._lasts, False
        if lasted:
            log.warning("estop answers again")


def _verdict(answer: bytes) -> Verdict:
    """Only a clear yes is a yes."""
    try:
        said = json.loads(answer)
        permission, reason, context, end = (said[key] for key in ("permission", "reason", "context", "end"))
    except (ValueError, KeyError, TypeError):
        return Verdict(False, "what estop answered cannot be read, which is not a yes")
    if permission == "allow":
        return Verdict(True, None, context or None, end is True)
    return Verdict(False, reason or "estop denied it", context or None, end is True)


def _refusal(status: int, answer: bytes) -> Refused:
    """Out of a problem document (RFC 9457), if it is one."""
    try:
        said = json.loads(answer)
        return Refused(status, str(said["code"]), str(said["detail"]))
    except (ValueError, KeyError, TypeError):
        return Refused(status, "unknown", "no explanation was given")
