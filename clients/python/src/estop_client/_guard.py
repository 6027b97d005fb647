"""Puts estop before a function: asks before each call, tells after it."""

from __future__ import annotations

import functools
import inspect
import logging
import uuid
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Dict, Optional, Sequence

from ._plain import exit_code_of, text_of
from ._said import Verdict
from ._threads import in_thread, in_thread_unheard

if TYPE_CHECKING:
    from ._client import Estop

log = logging.getLogger("estop_client")
# What frameworks put beside the model's arguments. It differs in each call, and would make repeated calls look new.
_INJECTED = frozenset({"RunContextWrapper", "ToolContext", "RunContext", "ToolRuntime"})


def guarded(
    estop: Estop, tool: Callable[..., Any], *, name: Optional[str] = None, on_denied: str = "raise",
    exit_code: Callable[[Any], Optional[int]] = exit_code_of, on_context: Optional[Callable[[str], None]] = None,
    ignore: Sequence[str] = (),
) -> Callable[..., Any]:
    """The same function, behind estop. Its signature, name and help stay, so that frameworks read them as before."""
    if on_denied not in ("raise", "return"):
        raise ValueError(f"on_denied must be 'raise' or 'return', not {on_denied!r}")
    if inspect.isgeneratorfunction(tool) or inspect.isasyncgenfunction(tool):
        raise TypeError("a generator cannot be guarded: guard the function that reads it to its end")
    name = name or getattr(tool, "__name__", None)
    if not name:
        raise TypeError("this has no name: give one, guard(…, name=…)")

    def begun(args: Any, kwargs: Any) -> _Call:
        return _Call(estop, name or "", _arguments(tool, args, kwargs, ignore), on_denied, exit_code, on_context)

    if inspect.iscoroutinefunction(tool):
        @functools.wraps(tool)
        async def waits(*args: Any, **kwargs: Any) -> Any:
            call = begun(args, kwargs)
            call.judge(await in_thread(call.ask))
            return call.denial if call.is_denied else await call.awaited(tool(*args, **kwargs))

        return waits

    @functools.wraps(tool)
    def runs(*args: Any, **kwargs: Any) -> Any:
        call = begun(args, kwargs)
        call.judge(call.ask())
        if call.is_denied:
            return call.denial
        try:
            result = tool(*args, **kwargs)
        except BaseException as error:
            call.failed(error)
            raise
        return call.awaited(result) if inspect.isawaitable(result) else call.finished(result)

    return runs


class _Call:
    """One call of a guarded tool."""

    def __init__(
        self, estop: Estop, tool: str, args: Dict[str, Any], on_denied: str,
        exit_code: Callable[[Any], Optional[int]], on_context: Optional[Callable[[str], None]],
    ) -> None:
        self.estop, self.tool, self.args = estop, tool, args
        self.on_denied, self.exit_code, self.on_context = on_denied, exit_code, on_context
        self.id = uuid.uuid4().hex
        self.warnings: Dict[str, None] = {}
        self.denial: Optional[str] = None

    @property
    def is_denied(self) -> bool:
        return self.denial is not None

    def ask(self) -> Verdict:
        return self.estop.pre_tool_use(self.tool, self.args, call=self.id)

    def judge(self, verdict: Verdict) -> None:
        """Raises, or keeps what is said instead of a result. A run that must end is never only told so."""
        if not verdict.allowed and self.on_denied == "return" and not verdict.end:
            # What is asked of the model may be said in both.
            said = dict.fromkeys([verdict.reason or "estop denied it", verdict.context or ""])
            self.denial = "\n\n".join(text for text in said if text)
            return
        verdict.raise_if_denied(self.tool)
        self.warned(verdict)

    def warned(self, verdict: Verdict) -> None:
        """What ran cannot be refused, but whoever was stopped meanwhile should know."""
        for text in (None if verdict.allowed else verdict.reason, verdict.context):
            if text:
                self.warnings[text] = None

    def failed(self, error: BaseException) -> None:
        self.tell(f"{type(error).__name__}: {error}", failed=True)

    def finished(self, result: Any) -> Any:
        self.warned(self.tell(text_of(result), exit_code=self.exit_code(result)))
        return self.with_warnings(result)

    async def awaited(self, work: Awaitable[Any]) -> Any:
        try:
            result = await work
        except Exception as error:
            await in_thread(self.failed, error)
            raise
        except BaseException as error:
            # Cancelled: whoever did it does not want to wait.
            in_thread_unheard(self.failed, error)
            raise
        verdict = await in_thread(self.tell, text_of(result), None, self.exit_code(result))
        self.warned(verdict)
        return self.with_warnings(result)

    def tell(self, result: Any, failed: Optional[bool] = None, exit_code: Optional[int] = None) -> Verdict:
        return self.estop.post_tool_use(self.tool, self.args, result, failed, exit_code, self.id)

    def with_warnings(self, result: Any) -> Any:
        """What the model should know goes where it reads."""
        said = "\n".join(self.warnings)
        if said and self.on_context:
            self.on_context(said)
        elif said and isinstance(result, str):
            return f"{result}\n\n{said}"
        elif said:
            log.warning("%s: %s (not told to the model: the result is no text; use on_context)", self.tool, said)
        return result


def _arguments(tool: Callable[..., Any], args: Any, kwargs: Any, ignore: Sequence[str]) -> Dict[str, Any]:
    """Arguments by name, as the model gave them, whichever way they were passed."""
    try:
        signature = inspect.signature(tool)
        named = dict(signature.bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):
        # The tool itself will complain.
        return {"args": list(args), **kwargs} if args else dict(kwargs)
    for parameter in signature.parameters.values():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            named.update(named.pop(parameter.name, {}))
    left_out = {"self", *ignore}
    return {
        name: value for name, value in named.items()
        if name not in left_out and type(value).__name__ not in _INJECTED
    }
