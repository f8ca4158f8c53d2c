"""Guarded functions as tools of the OpenAI Agents SDK."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import anyio.to_thread
from agents import FunctionTool, RunContextWrapper

from .tools import Told, tool


def guarded_tool(guarded: Callable[..., Any], **naming: str) -> FunctionTool:
    """Makes a tool of a guarded function, which tells the model what became of the call, and what it may do next."""
    made = tool(guarded, **naming)

    async def invoke(context: RunContextWrapper[Any], text: str) -> str:
        try:
            arguments = json.loads(text or "{}", parse_float=Decimal)
        except ValueError as error:
            return f"Not carried out: the arguments are no JSON: {error}"
        told: Told = await made.call(arguments) if made.is_async else await anyio.to_thread.run_sync(made.call, arguments)
        return told.message

    return FunctionTool(
        name=made.name, description=made.description, params_json_schema=made.schema, on_invoke_tool=invoke, strict_json_schema=False
    )
