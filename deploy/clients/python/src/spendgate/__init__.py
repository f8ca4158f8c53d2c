"""A client of a spendgate service, and a guard around functions that move money."""

from .aio import AsyncListing, AsyncSpendgate
from .client import Listing, Spendgate
from .errors import (
    ActionChanged,
    APIError,
    ApprovalExpired,
    ApprovalPending,
    BadKey,
    BadSignature,
    Blocked,
    Denied,
    Differs,
    Escalated,
    Frozen,
    InDoubt,
    NoAnswer,
    NoDecision,
    NotCarriedOut,
    SpendgateError,
    Unanswered,
)
from .permit import Permit
from .tools import Told, Tool, tool
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
    Payment,
    Policy,
    Redemption,
    Result,
    Session,
    Simulation,
    Stats,
    Sums,
    Violation,
    Webhook,
)
from .webhooks import verify_webhook

__all__ = [
    "APIError", "ActionChanged", "Approval", "ApprovalExpired", "ApprovalPending", "AsyncListing", "AsyncSpendgate", "Backtest",
    "BadKey", "BadSignature", "Blocked", "Budget", "CheckOutcome", "CheckRecord", "Delivery", "Denied", "Differs", "Escalated",
    "Event", "Flip", "Frozen", "InDoubt", "Key", "Listing", "NewKey", "NewWebhook", "NoAnswer", "NoDecision", "NotCarriedOut", "Outcome",
    "Page", "Payment", "Permit", "Policy", "Redemption", "Result", "Session", "Simulation", "Spendgate", "SpendgateError",
    "Stats", "Sums", "Told", "Tool", "Unanswered", "Violation", "Webhook", "tool", "verify_webhook",
]
