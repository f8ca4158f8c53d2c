"""Guarded functions as tools of the OpenAI Agents SDK."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agents import FunctionTool, RunContextWrapper, function_tool

from .errors import SpendgateError
from .tools import explain, require_guarded


def guarded_tool(function: Callable[..., Any], **options: Any) -> FunctionTool:
    """Makes a tool of a guarded function.

    The SDK's own text for an error asks the model to try again, which is wrong for an action in doubt. So the model gets
    the text of explain(). Errors that are not spendgate's end the run.
    """
    require_guarded(function)
    return function_tool(function, failure_error_function=_tell, **options)


def _tell(context: RunContextWrapper[Any], error: Exception) -> str:
    if isinstance(error, SpendgateError):
        return explain(error)
    raise error
