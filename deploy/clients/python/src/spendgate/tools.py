"""The texts for a model about a guarded tool that did not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .errors import AlreadyExecuted, AlreadyReported, ApprovalPending, Blocked, Denied, InDoubt, Running, SpendgateError


def require_guarded(function: Callable[..., Any]) -> None:
    """Refuses a function that is not guarded: @gate.guard must be below the adapter's decorator."""
    if not hasattr(function, "__spendgate__"):
        raise TypeError(f"{getattr(function, '__name__', function)!r} is not guarded: put @gate.guard(...) around it first")


def explain(error: SpendgateError) -> str:
    """A tool's result for an error. It never reads like a success, and proposes to try again only if that is safe."""
    if isinstance(error, AlreadyExecuted):
        return f"Already carried out{f', as {error.reference}' if error.reference else ''}. {error.next_step}"
    if isinstance(error, Running):
        return f"Not carried out by this call. {error}"
    if isinstance(error, (AlreadyReported, InDoubt)):
        return f"Not carried out now. {error}"
    if isinstance(error, (Blocked, Denied)):
        return f"Not carried out. {error}"
    if isinstance(error, ApprovalPending):
        then = f" People decide about {error.approval_id}: call again with exactly these arguments afterwards." if error.approval_id else ""
        return f"Not carried out yet. {error}{then}"
    if error.maybe_done:
        return "Not carried out: there is no decision. The same call with exactly these arguments is safe."
    return f"Not carried out. {error}"
