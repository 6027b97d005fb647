"""The same for asyncio."""

from __future__ import annotations

import contextlib
from typing import Any, AsyncIterator, Dict, Mapping, Optional

from ._client import Estop
from ._said import RunInfo, Verdict
from ._threads import in_thread


class AsyncEstop:
    """`Estop` for asyncio: the same arguments and methods."""

    def __init__(
        self, url: Optional[str] = None, key: Optional[str] = None, agent: Optional[str] = None,
        run: Optional[str] = None, socket: Optional[str] = None, on_unreachable: Optional[str] = None,
        timeout: float = 5.0,
    ) -> None:
        self.sync = Estop(url, key, agent, run, socket, on_unreachable, timeout)
        self.guard = self.sync.guard

    def __repr__(self) -> str:
        return f"Async{self.sync!r}"

    @property
    def agent(self) -> str:
        return self.sync.agent

    @property
    def run_name(self) -> Optional[str]:
        return self.sync.run_name

    @property
    def headers(self) -> Dict[str, str]:
        return self.sync.headers

    async def pre_tool_use(
        self, tool: str, args: Optional[Mapping[str, Any]] = None, call: Optional[str] = None
    ) -> Verdict:
        return await in_thread(self.sync.pre_tool_use, tool, args, call)

    async def post_tool_use(
        self, tool: str, args: Optional[Mapping[str, Any]] = None, result: Any = None, failed: Optional[bool] = None,
        exit_code: Optional[int] = None, call: Optional[str] = None,
    ) -> Verdict:
        return await in_thread(self.sync.post_tool_use, tool, args, result, failed, exit_code, call)

    async def turn(self, prompt: str) -> Verdict:
        return await in_thread(self.sync.turn, prompt)

    async def turn_end(self, last_words: Optional[str] = None) -> Verdict:
        return await in_thread(self.sync.turn_end, last_words)

    async def start(self, **about: Any) -> Optional[RunInfo]:
        return await in_thread(lambda: self.sync.start(**about))

    async def activate(self) -> Optional[RunInfo]:
        return await in_thread(self.sync.activate)

    async def sleep(self) -> Optional[RunInfo]:
        return await in_thread(self.sync.sleep)

    async def wake(self) -> Optional[RunInfo]:
        return await in_thread(self.sync.wake)

    async def complete(self) -> Optional[RunInfo]:
        return await in_thread(self.sync.complete)

    @contextlib.asynccontextmanager
    async def run(self, name: str, **about: Any) -> AsyncIterator[AsyncEstop]:
        manager = self.sync.run(name, **about)
        inside = object.__new__(type(self))
        inside.sync = await in_thread(manager.__enter__)
        inside.guard = inside.sync.guard
        try:
            yield inside
        finally:
            await in_thread(manager.__exit__, None, None, None)
