"""schemathesis asks everything that the description allows, and much that it does not.

Arguments: the URL of the API, a seed, and about how many requests.

The hooks and the settings are beside this file. An endless answer is not asked for.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import httpx

url, seed, requests = sys.argv[1], sys.argv[2], int(sys.argv[3])
here = Path(__file__).parent
with httpx.Client(base_url=url, trust_env=False) as api:
    paths = api.get("/v1/openapi.json").raise_for_status().json()["paths"]
operations = [
    (path, method, operation)
    for path, item in paths.items()
    for method, operation in item.items()
    if method in ("get", "put", "patch", "post", "delete")
]
endless = [path for path, _, operation in operations if operation.get("x-endless")]
# Of a long run, one part is what each schema and its borders suggest, and the rest is random.
is_long = requests >= 5000
each = max(1, requests // len(operations))
command = [
    "schemathesis",
    f"--config-file={here / 'schemathesis.toml'}",
    "run",
    f"{url}/v1/openapi.json",
    f"--seed={seed}",
    f"--max-examples={each}",
    f"--phases={'examples,coverage,fuzzing' if is_long else 'fuzzing'}",
    "--generation-database=none",
    "--continue-on-failure",
    "--no-color",
    "--warnings=off",
    "--request-timeout=30",
    *(f"--exclude-path={path}" for path in endless),
]
count = Path("count.json")
environment = os.environ | {
    "WEFT_API": url,
    "WEFT_COUNT": str(count.absolute()),
    "SCHEMATHESIS_HOOKS": "hooks",
    "PYTHONPATH": str(here),
}
run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
print(run.stdout[-60_000:])
assert run.returncode == 0, f"schemathesis exits with {run.returncode}\n{run.stderr[-4000:]}"
counted = json.loads(count.read_text(encoding="utf-8"))
print(counted)
# The comparison has happened.
assert counted["refused"] > 0 and counted["accepted"] > 0, counted
