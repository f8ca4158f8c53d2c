"""StructuredTool: with a JSON schema it passes the arguments on as they are."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any


class StructuredTool:
    def __init__(
        self,
        *,
        name: str,
        description: str,
        args_schema: dict[str, Any],
        func: Callable[..., Any] | None = None,
        coroutine: Callable[..., Awaitable[Any]] | None = None,
    ) -> None:
        self.name, self.description, self.args_schema, self._func, self._coroutine = name, description, args_schema, func, coroutine

    def invoke(self, input: dict[str, Any]) -> Any:
        return self._func(**input) if self._func else asyncio.run(self.ainvoke(input))

    async def ainvoke(self, input: dict[str, Any]) -> Any:
        assert self._coroutine is not None
        return await self._coroutine(**input)
