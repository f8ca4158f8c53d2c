"""function_tool and its tools: a tool's schema comes from the signature, and its errors go to failure_error_function."""

from __future__ import annotations

import inspect
import json
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class RunContextWrapper(Generic[T]):
    context: T


class FunctionTool:
    def __init__(
        self, name: str, params_json_schema: dict[str, Any], on_invoke_tool: Callable[[RunContextWrapper[Any], str], Awaitable[Any]]
    ) -> None:
        self.name, self.params_json_schema, self.on_invoke_tool = name, params_json_schema, on_invoke_tool


def function_tool(
    func: Callable[..., Any],
    *,
    name_override: str | None = None,
    failure_error_function: Callable[[RunContextWrapper[Any], Exception], str] | None = None,
) -> FunctionTool:
    async def invoke(context: RunContextWrapper[Any], arguments: str) -> Any:
        try:
            returned = func(**json.loads(arguments))
            return await returned if inspect.isawaitable(returned) else returned
        except Exception as error:
            if failure_error_function is None:
                raise
            return failure_error_function(context, error)

    return FunctionTool(name_override or func.__name__, {"properties": list(inspect.signature(func).parameters)}, invoke)
