"""Asks estop before a tool runs, and tells it what came of it. For frameworks without hooks of their own.

    from estop_client import Estop

    estop = Estop(agent="researcher")
    with estop.run("ticket-42") as run:
        search = run.guard(search)      # asks before each call, tells after it, raises ToolDenied
"""

from ._aio import AsyncEstop
from ._client import Estop
from ._said import EstopError, Refused, RunEnded, RunInfo, ToolDenied, Unreachable, Verdict

__all__ = [
    "AsyncEstop", "Estop", "EstopError", "Refused", "RunEnded", "RunInfo", "ToolDenied", "Unreachable", "Verdict",
]
__version__ = "0.1.0"
