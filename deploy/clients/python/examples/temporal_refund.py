"""A sample: a guarded refund as an activity of Temporal, with people's approval as a signal.

Temporal runs an activity again after a crash of its worker, with the same arguments: the payment_key makes that
safe. The signal only ends the waiting. Whether people approved is asked of the service, by the activity.

Temporal loads the module of a workflow again for each run: a worker keeps the activity in a module of its own.
"""

from __future__ import annotations

import os
from datetime import timedelta

from temporalio import activity, workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    import spendgate

#: What another attempt does not change. Unanswered is retried.
FINAL = ["Blocked", "Escalated", "Denied", "ApprovalExpired", "InDoubt", "Differs", "ActionChanged", "BadKey", "APIError"]

gate = spendgate.Spendgate(
    os.environ["SPENDGATE_API_URL"], os.environ["SPENDGATE_API_KEY"], agent_id="support-bot", policy_id="support-refunds"
)


@gate.guard("refund", payment_key="refund-{order}", counterparty="{customer}", currency="USD", take_over=True, reference=str)
def pay(order: str, customer: str, amount: str, *, execution_id: str = "") -> str:
    """Stands for the call of the provider, whose idempotency key is execution_id."""
    return f"psp-{execution_id}"


@activity.defn
def refund(order: str, customer: str, amount: str) -> str:
    try:
        return pay(order, customer, amount)
    except spendgate.ApprovalPending as pending:
        raise ApplicationError(str(pending), type=type(pending).__name__, non_retryable=True) from pending


@workflow.defn
class Refund:
    def __init__(self) -> None:
        self._decided = 0

    @workflow.signal
    def decided(self) -> None:
        self._decided += 1

    @workflow.run
    async def run(self, order: str, customer: str, amount: str) -> str:
        while True:
            seen = self._decided
            try:
                reference: str = await workflow.execute_activity(
                    refund, args=[order, customer, amount], start_to_close_timeout=timedelta(minutes=2),
                    retry_policy=RetryPolicy(non_retryable_error_types=FINAL),
                )
                return reference
            except ActivityError as failed:
                if not isinstance(failed.cause, ApplicationError) or failed.cause.type != "ApprovalPending":
                    raise
            # People also decide while nobody signals: ask again after an hour.
            await workflow.wait_condition(lambda: self._decided > seen, timeout=timedelta(hours=1))
