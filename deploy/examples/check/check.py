"""Asks whether a refund is allowed, and has it carried out once."""

import os

from spendgate import Spendgate


def refunded(key):
    """Asks the provider whether it has a refund under the key."""
    raise NotImplementedError(f"not known whether there is a refund under {key}")


def refund(key):
    """Has the provider refund, once for a key."""
    print("refund under", key)


client = Spendgate(os.environ["SPENDGATE_API_URL"], os.environ["SPENDGATE_API_KEY"])
result = client.check(
    "refund", agent_id="support-bot", policy_id="support-refunds", amount="19.90", currency="USD", counterparty="customer-9",
    idempotency_key="order-2003-refund",
)
if not result.allowed:  # also what was executed, failed or voided
    raise SystemExit(f"not carried out: {result.next_step}")
print("allowed:", result.message)
if not result.replayed or not refunded(result.check_id):
    refund(result.check_id)
