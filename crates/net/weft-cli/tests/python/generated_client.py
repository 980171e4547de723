"""A client that openapi-python-client generates creates, reads, lists, changes and deletes an object.

Argument: the URL of the API over TCP, or the path of its unix socket. The client is generated into the working folder.
"""

import json
import subprocess
import sys

import httpx

address = sys.argv[1]
is_unix = address.startswith("/")
transport = httpx.HTTPTransport(uds=address) if is_unix else httpx.HTTPTransport()
base = "http://localhost" if is_unix else address

with httpx.Client(base_url=base, transport=transport) as api:
    description = api.get("/v1/openapi.json").raise_for_status().json()
with open("openapi.json", "w", encoding="utf-8") as file:
    json.dump(description, file)
made = subprocess.run(
    ["openapi-python-client", "generate", "--path", "openapi.json", "--meta", "none", "--output-path", "weft_client"],
    capture_output=True,
    text=True,
    check=False,
)
assert made.returncode == 0, made.stdout + made.stderr
# What it cannot express, it leaves out with a warning: bodies in YAML, and the endless answer, which has lines.
said = [line for line in (made.stdout + made.stderr).splitlines() if line.strip()]
warnings = [(line, why) for line, why in zip(said, said[1:]) if line.startswith(("WARNING", "Unable", "ERROR"))]
strange = [warning for warning in warnings if "Unsupported content" not in warning[1]]
assert not strange, strange
sys.path.insert(0, ".")

from weft_client import Client, models  # noqa: E402
from weft_client.api.default import delete_switch, get_switch, list_switches, patch_switch, put_switch, status  # noqa: E402

client = Client(base_url=base, httpx_args={"transport": transport}, raise_on_unexpected_status=True)

made = put_switch.sync_detailed("blue", client=client, body=models.Switch(tenant="acme"), if_none_match="*", weft_by="a test")
assert made.status_code == 201, made
assert made.parsed.txn == 1 and made.headers["etag"] == '"1"', made
again = put_switch.sync_detailed("blue", client=client, body=models.Switch(), if_none_match="*")
assert again.status_code == 412, again
assert isinstance(again.parsed, models.Problem) and again.parsed.code == "stale", again

found = get_switch.sync("blue", client=client)
assert (found.kind, found.id, found.revision) == ("switch", "blue", 1), found
assert found["tenant"] == "acme" and found.state.problems == [], found
known = get_switch.sync_detailed("blue", client=client, if_none_match='"1"')
assert known.status_code == 304, known

body = models.MergePatch.from_dict({"tenant": "umbra"})
changed = patch_switch.sync_detailed("blue", client=client, body=body, if_match='"1"')
assert changed.status_code == 200 and changed.parsed.txn == 2, changed
listed = list_switches.sync(client=client, label="env!=test", field="tenant=umbra", limit=5)
assert [item.id for item in listed.items] == ["blue"], listed
told = status.sync(client=client)
assert told is not None, told

gone = delete_switch.sync_detailed("blue", client=client, dry_run=True)
assert gone.status_code == 200 and gone.parsed.dry_run, gone
assert delete_switch.sync("blue", client=client).txn == 3
missing = get_switch.sync_detailed("blue", client=client)
assert missing.status_code == 404 and missing.parsed.code == "not-found", missing
print(f"a generated client over {'a unix socket' if is_unix else 'TCP'}")
