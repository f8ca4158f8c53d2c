"""Client of a spendgate service, and a guard around what moves money."""

from .aio import AsyncListing, AsyncSpendgate
from .client import Checked, Listing, Spendgate
from .errors import (
    AlreadyExecuted,
    AlreadyReported,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    BadSignature,
    Blocked,
    Denied,
    InDoubt,
    KeyReused,
    NoAnswer,
    NoDecision,
    NotCarriedOut,
    SpendgateError,
)
from .guard import Permit
from .journal import Entry, Journal, MemoryJournal, SQLiteJournal
from .types import (
    Approval,
    Budget,
    CheckOutcome,
    CheckRecord,
    Event,
    Key,
    NewKey,
    Outcome,
    Page,
    Policy,
    Redemption,
    Result,
    Simulation,
    Violation,
)
from .webhooks import verify_webhook

__all__ = [
    "APIError", "AlreadyExecuted", "AlreadyReported", "Approval", "ApprovalExpired", "ApprovalPending",
    "AsyncListing", "AsyncSpendgate", "BadSignature", "Blocked", "Budget", "CheckOutcome", "CheckRecord",
    "Checked", "Denied", "Entry", "Event", "InDoubt", "Journal", "Key", "KeyReused", "Listing",
    "MemoryJournal", "NewKey", "NoAnswer", "NoDecision", "NotCarriedOut", "Outcome", "Page", "Permit",
    "Policy", "Redemption", "Result", "SQLiteJournal", "Simulation", "Spendgate", "SpendgateError",
    "Violation", "verify_webhook",
]
