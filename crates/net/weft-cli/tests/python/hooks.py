"""What schemathesis is told of the API of Weft beyond its description; the settings are in `schemathesis.toml`.

The checks of schemathesis compare each answer with the description. The check here compares the state of the controller before and
after each request that is refused or only tried: nothing may differ.
"""

import atexit
import json
import os
import re
from pathlib import Path

import httpx
import schemathesis

api = httpx.Client(base_url=os.environ["WEFT_API"], trust_env=False, timeout=60)
kinds = {kind["kind"]: kind["path"] for kind in api.get("/v1/schema").raise_for_status().json()["kinds"]}
CHANGES = {"PUT", "PATCH", "DELETE"}
CHANGING = {"/v1/apply", "/v1/rollback"}
# Objects that others can name, so that more than refusals is tried.
NAME = re.compile("[A-Za-z0-9][A-Za-z0-9_.:@-]*")
THERE = {"switch": "s0", "router": "r0", "transport_zone": "z0"}
for kind, name in THERE.items():
    api.put(f"{kinds[kind]}/{name}", json={}).raise_for_status()


def last_transaction():
    return api.get("/v1/status").raise_for_status().json()["last_txn"]


def objects():
    return {path: api.get(path).raise_for_status().json()["items"] for path in kinds.values()}


class Known:
    """What is there, as of a transaction."""

    txn = last_transaction()
    objects = objects()


counted = {"accepted": 0, "refused": 0, "tried": 0, "questions": 0}


@atexit.register
def write_count():
    if path := os.environ.get("WEFT_COUNT"):
        Path(path).write_text(json.dumps(counted), encoding="utf-8")


@schemathesis.hook
def filter_query(context, query):
    # A watch has no end. These are the values that the daemon takes for `true`.
    watch = (query or {}).get("watch")
    values = watch if isinstance(watch, list) else [watch]
    return not any(str(value).lower() in ("", "1", "true") for value in values if value is not None)


@schemathesis.hook
def map_body(context, body):
    """An object names others that exist."""
    if isinstance(body, dict):
        for field, name in THERE.items():
            if isinstance(body.get(field), str) and NAME.fullmatch(body[field]):
                body[field] = name
    return body


# What the description says of these headers.
CONDITIONS = {
    "if-match": re.compile('"[0-9]{1,19}"'),
    "if-none-match": re.compile(r"\*"),
    "idempotency-key": re.compile("[!-~]{1,255}"),
}


@schemathesis.hook
def before_call(context, case, kwargs):
    # For the borders of schemas, schemathesis takes empty texts that match no pattern, and calls them valid. Such a
    # header is left out.
    if case.method.upper() == "GET" or case.meta is None or not case.meta.generation.mode.is_positive:
        return
    for name in [name for name in case.headers or {} if name.lower() in CONDITIONS]:
        if not CONDITIONS[name.lower()].fullmatch(case.headers[name]):
            del case.headers[name]


@schemathesis.check
def refused_requests_change_nothing(ctx, response, case):
    path = case.operation.path
    if case.method.upper() not in CHANGES and path not in CHANGING:
        counted["questions"] += 1
        return
    txn = last_transaction()
    is_tried = response.status_code in (200, 201) and response.json().get("dry_run")
    if 400 <= response.status_code < 500 or is_tried:
        counted["tried" if is_tried else "refused"] += 1
        assert txn == Known.txn, f"a refused request made transaction {txn}; before it was {Known.txn}"
        # Of a request about one kind, the others need not be compared each time.
        of_kind = [of_kind for of_kind in kinds.values() if path.startswith(of_kind + "/")] or kinds.values()
        for each in of_kind:
            assert api.get(each).raise_for_status().json()["items"] == Known.objects[each], f"a refused request changed {each}"
        return
    counted["accepted"] += 1
    before, Known.txn = Known.txn, txn
    changed = response.json().get("txn")
    if response.json().get("repeated"):
        assert txn == before, f"a repeated request made transaction {txn}; before it was {before}"
        return
    assert changed in (None, txn), f"the receipt is of transaction {changed}, and {txn} is the last"
    assert (changed is None) == (txn == before), f"transaction {txn} after {before}, and a receipt of {changed}"
    if txn != before:
        Known.objects = objects()
