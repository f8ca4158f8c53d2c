"""Guarded functions in nodes and tools of LangGraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from langchain_core.tools import StructuredTool
from langgraph.func import task
from langgraph.types import interrupt

from .tools import Told, tool


def interrupting(guarded: Callable[..., Any], **naming: str) -> Callable[..., Any]:
    """Makes a function of keyword arguments that calls the tool of a guarded function, and interrupts its graph while people decide.

    It returns a Told. The value with which the graph is resumed is not trusted: the service is asked, and the graph is
    interrupted again while people have not decided. LangGraph gives the values to the interrupts of a node by their order, and
    runs the node again from its beginning. So each call is a task, whose result the checkpointer keeps: each run
    interrupts where the runs before it did, and the answer to one question never reaches another.
    """
    made = tool(guarded, **naming)

    @task
    def call(arguments: dict[str, Any]) -> dict[str, Any]:
        told: Told = made.call(arguments)
        return told.as_json

    @task
    async def call_soon(arguments: dict[str, Any]) -> dict[str, Any]:
        told: Told = await made.call(arguments)
        return told.as_json

    def interrupted(**arguments: Any) -> Told:
        while (told := Told(**call(arguments).result())).state == "pending":
            interrupt(told.as_json)
        return told

    async def interrupted_soon(**arguments: Any) -> Told:
        while (told := Told(**await call_soon(arguments))).state == "pending":
            interrupt(told.as_json)
        return told

    return interrupted_soon if made.is_async else interrupted


def structured_tool(guarded: Callable[..., Any], **naming: str) -> StructuredTool:
    """Makes a tool for create_agent and ToolNode, which interrupts while people decide, and tells the model what became of it."""
    made, call = tool(guarded, **naming), interrupting(guarded, **naming)

    def say(**arguments: Any) -> str:
        return str(call(**arguments).message)

    async def say_soon(**arguments: Any) -> str:
        return str((await call(**arguments)).message)

    how: dict[str, Any] = {"coroutine": say_soon} if made.is_async else {"func": say}
    return StructuredTool(name=made.name, description=made.description, args_schema=made.schema, **how)
