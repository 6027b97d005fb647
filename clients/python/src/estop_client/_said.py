"""What estop says: verdicts, runs, and the errors that carry a no."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, Optional, TypedDict


class EstopError(Exception):
    """Everything this package raises, except for wrong arguments."""


class Unreachable(EstopError):
    """estop did not answer, and `on_unreachable` is "deny"."""


class Refused(EstopError):
    """estop answered, and did not do as it was asked: a run in another state, a wrong key, a wrong name."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(f"estop answered {status} ({code}): {detail}")
        self.status = status
        self.code = code
        self.detail = detail


class ToolDenied(EstopError):
    """A tool, or a prompt, may not run."""

    def __init__(self, tool: Optional[str], verdict: Verdict) -> None:
        super().__init__(verdict.reason or "estop denied it")
        self.tool = tool
        self.verdict = verdict

    @property
    def reason(self) -> str:
        return str(self)


class RunEnded(ToolDenied):
    """A tool may not run, and estop asks to end the whole run."""


@dataclass(frozen=True)
class Verdict:
    """What estop says to a tool call or a prompt. True if it may go on."""

    allowed: bool
    reason: Optional[str] = None
    """Why not; or why it is allowed although estop was not reached."""
    context: Optional[str] = None
    """For the model to read, e.g. that a limit is near."""
    end: bool = False
    """estop asks to end the whole run."""
    reached: bool = True
    """False: estop did not answer, and `on_unreachable` decided."""

    def __bool__(self) -> bool:
        return self.allowed

    def raise_if_denied(self, tool: Optional[str] = None) -> Verdict:
        """Itself, if allowed."""
        if self.allowed:
            return self
        raise (RunEnded if self.end else ToolDenied)(tool, self)


class RunInfo(TypedDict, total=False):
    """A run as estop shows it."""

    id: str
    agent: str
    run: Optional[str]
    state: str
    attended: bool
    tripped: Optional[bool]
    iterations: Optional[int]
    tool_calls: Optional[int]
    turns: Optional[int]
    active_ms: Optional[int]
    role: Optional[str]
    issue: Optional[str]
    branch: Optional[str]
    labels: Dict[str, Any]
    spent_usd: float
    tokens: int
    summary: Optional[str]
