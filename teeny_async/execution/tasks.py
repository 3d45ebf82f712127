"""A task group that serves a block of code and never changes what the block raises.

anyio's own task group wraps every exception in an ExceptionGroup, that of the block included, which
would reach callers as a group of one. `ServiceGroup` is for tasks that exist only to serve the block:
when the block ends they are cancelled and awaited, and the block's own outcome stands.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any

import anyio
from anyio.abc import TaskGroup


class ServiceGroup:
    """An async context manager; `start` a task, and leave the block to end them all."""

    def __init__(self) -> None:
        self._group: TaskGroup = anyio.create_task_group()

    async def __aenter__(self) -> ServiceGroup:
        await self._group.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
        # The group must not see the block's exception: it would wrap it. Our tasks keep their errors to
        # themselves; one that gets out is a bug of ours and is raised, alone, in place of a group.
        try:
            await self._group.__aexit__(None, None, None)
        except BaseExceptionGroup as group:
            if len(group.exceptions) == 1:
                raise group.exceptions[0] from error
            raise

    def start(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: object) -> None:
        """Run `function(*args)` until it ends or the block does."""
        self._group.start_soon(function, *args)

    def cancel(self) -> None:
        self._group.cancel_scope.cancel()
