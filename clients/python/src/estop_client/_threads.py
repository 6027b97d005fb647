"""Questions beside asyncio's loop, each in a thread of its own, so that the loop never waits.

Not in the loop's pool of threads: tools that fill it would keep estop from being asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import Any, Callable, TypeVar

T = TypeVar("T")


async def in_thread(work: Callable[..., T], *args: Any) -> T:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def give(how: Callable[[Any], None], what: Any) -> None:
        if not done.done():
            how(what)

    def run() -> None:
        try:
            how, what = done.set_result, work(*args)
        except BaseException as error:
            how, what = done.set_exception, error  # type: ignore[assignment]
        with contextlib.suppress(RuntimeError):  # The loop is closed: nobody waits any more.
            loop.call_soon_threadsafe(give, how, what)

    threading.Thread(target=run, name="estop-client", daemon=True).start()
    return await done


def in_thread_unheard(work: Callable[..., Any], *args: Any) -> None:
    threading.Thread(target=work, args=args, name="estop-client", daemon=True).start()
