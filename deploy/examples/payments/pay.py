"""A payment service: redeems a check before it pays, once."""

import json, os, time, urllib.request, uuid


class Answers(urllib.request.HTTPErrorProcessor):
    """Returns each answer as it is, and follows no redirect: who answers there is not spendgate."""

    def http_response(self, request, response):
        return response

    https_response = http_response


service = urllib.request.build_opener(Answers)


def ask(check, about, body=None):
    """Asks the service about a check, again while it is not known what became of that. Returns nothing without an answer."""
    url = f"{os.environ['SPENDGATE_API_URL']}/v1/checks/{check}{about}"
    headers = {"X-API-Key": os.environ["SERVICE_KEY"], "Content-Type": "application/json"}
    for _ in range(3):
        try:
            with service.open(urllib.request.Request(url, body and json.dumps(body).encode(), headers), timeout=10) as answer:
                status, said = answer.status, json.load(answer)
            if 200 <= status < 300 and said["check_id"] == check:
                return said
            if 400 <= status < 500 and status != 429 and said["error"]["code"]:
                return said
        except Exception:
            pass  # nobody knows
        time.sleep(1)
    return {}


def pay(check, order, amount, to):
    """Pays an order, as the check allowed it, once. The order is one of this service's own records."""
    action = {"policy_id": "payouts", "action_type": "spend", "amount": amount, "currency": "USD", "counterparty": to}
    said = ask(check, "/redeem", {**action, "payment_key": order, "idempotency_key": str(uuid.uuid4())})
    code = said.get("error", {}).get("code", "no answer")
    if said.get("payment", {}).get("proceed") is True:
        print("paid", amount, "to", to)  # by the provider, with the payment's execution_id as its idempotency key
        ask(check, "/outcome", {"status": "executed", "reference": "psp-2"})
    elif code not in ("no answer", "check_already_redeemed", "check_expired"):
        print("not paid:", code)
    elif ask(check, "/outcome").get("status") in ("failed", "voided"):
        print("not paid under this check: a new attempt is a new check")
    else:
        print("not known, look at the check a minute later:", code)


check = os.environ["CHECK"]
pay(check, "order-1002", 80, "supplier-9")
pay(check, "order-1002", 80, "supplier-2")
pay(check, "order-1002", 80, "supplier-2")
