"""A client of a spendgate service, and a guard around functions that move money."""

from .aio import AsyncListing, AsyncSpendgate
from .client import Checked, Listing, Spendgate
from .errors import (
    AlreadyExecuted,
    AlreadyReported,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    BadKey,
    BadSignature,
    Blocked,
    Denied,
    InDoubt,
    KeyReused,
    NoAnswer,
    NoDecision,
    NotCarriedOut,
    RedemptionRequired,
    Running,
    SpendgateError,
    Unanswered,
)
from .journal import Entry, Journal, MemoryJournal, SQLiteJournal
from .permit import Permit
from .types import (
    Approval,
    Backtest,
    Budget,
    CheckOutcome,
    CheckRecord,
    Delivery,
    Event,
    Flip,
    Key,
    NewKey,
    NewWebhook,
    Outcome,
    Page,
    Policy,
    Redemption,
    Result,
    Session,
    Simulation,
    Stats,
    Violation,
    Webhook,
)
from .webhooks import verify_webhook

__all__ = [
    "APIError", "AlreadyExecuted", "AlreadyReported", "Approval", "ApprovalExpired", "ApprovalPending",
    "AsyncListing", "AsyncSpendgate", "Backtest", "BadKey", "BadSignature", "Blocked", "Budget", "CheckOutcome", "CheckRecord",
    "Checked", "Delivery", "Denied", "Entry", "Event", "Flip", "InDoubt", "Journal", "Key", "KeyReused", "Listing",
    "MemoryJournal", "NewKey", "NewWebhook", "NoAnswer", "NoDecision", "NotCarriedOut", "Outcome", "Page", "RedemptionRequired",
    "Permit", "Policy", "Redemption", "Result", "Running", "SQLiteJournal", "Session", "Simulation", "Spendgate", "SpendgateError",
    "Stats", "Unanswered", "Violation", "Webhook", "verify_webhook",
]
