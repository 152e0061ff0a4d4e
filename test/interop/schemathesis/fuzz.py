"""Fuzzes a server with the requests that its own description allows and forbids. Arguments: base URL, examples per route, seed."""

import json
import re
import subprocess
import sys

import schemathesis

url, examples, seed = sys.argv[1:4]
# A row that the split lacks fits the schema and is refused all the same.
excluded = "positive_data_acceptance"
command = [sys.executable, "-m", "schemathesis.cli", "run", f"{url}/openapi.json"]
command += ["--max-examples", examples, "--seed", seed, "--exclude-checks", excluded, "--no-color"]
done = subprocess.run(command, capture_output=True, text=True)
print(done.stdout, file=sys.stderr)
cases = re.search(r"(\d+) generated", done.stdout)
tested = re.search(r"Tested: (\d+)", done.stdout)
print(
    json.dumps(
        {
            "version": schemathesis.__version__,
            "status": done.returncode,
            "cases": int(cases[1]) if cases else 0,
            "operations": int(tested[1]) if tested else 0,
            "report": "" if done.returncode == 0 else done.stdout[-4000:],
        }
    )
)
