"""get_config fails outside of a graph."""

from __future__ import annotations

from typing import Any

from . import types


def get_config() -> dict[str, Any]:
    if types.running is None:
        raise RuntimeError("Called get_config outside of a runnable context")
    return {}
