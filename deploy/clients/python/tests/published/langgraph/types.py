"""interrupt, and the runner of a node: a resumed node runs again from its beginning, and values are matched by order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GraphInterrupt(Exception):
    """Ends a run of the node until the graph is resumed."""


_resumed: list[Any] = []
_used = 0


def interrupt(value: Any) -> Any:
    global _used
    _used += 1
    if _used <= len(_resumed):
        return _resumed[_used - 1]
    raise GraphInterrupt(value)


def run_node(node: Callable[[], Any], resume: list[Any]) -> Any:
    """Runs a node as a graph does that was resumed with these values, in this order."""
    global _resumed, _used
    _resumed, _used = resume, 0
    return node()
