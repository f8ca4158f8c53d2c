"""interrupt, and the runner of a node: a resumed node runs again from its beginning, values are matched by order, and a task that
has a result is not run again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GraphInterrupt(Exception):
    """Ends a run of the node until the graph is resumed."""


class Thread:
    """A thread of a graph of one node: what its checkpointer keeps."""

    def __init__(self) -> None:
        self.resumed: list[Any] = []
        self.results: list[Any] = []  # of tasks
        self.interrupts = 0
        self.tasks = 0

    def run(self, node: Callable[[], Any], *resume: Any) -> Any:
        """Runs the node, resumed with one more value if one is given."""
        global running
        self.resumed += resume
        self.interrupts = self.tasks = 0
        running = self
        try:
            return node()
        finally:
            running = None


running: Thread | None = None


def interrupt(value: Any) -> Any:
    if running is None:
        raise RuntimeError("Called get_config outside of a runnable context")
    running.interrupts += 1
    if running.interrupts <= len(running.resumed):
        return running.resumed[running.interrupts - 1]
    raise GraphInterrupt(value)
