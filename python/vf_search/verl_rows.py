"""The rows of an environment as a data set of verl."""

import argparse
import json
from typing import Any, Literal

from datasets import Dataset  # type: ignore[import-untyped]

from . import VfSearchError, serve


def write_rows(env: str, split: Literal["train", "eval"], path: str, args: dict[str, Any] | None = None) -> int:
    """Writes the rows of a split to a Parquet file and returns their number."""
    with serve(env, args, split) as served:
        tasks = served.tasks()
    common = {"agent_name": "vf_search", "data_source": env, "split": split, "reward_model": {"style": "rule", "ground_truth": ""}}
    rows = [common | {"prompt": row["prompt"], "example_id": str(row["example_id"]), "extra_info": {"index": at}} for at, row in enumerate(tasks)]
    Dataset.from_list(rows).to_parquet(path)
    return len(rows)


def _main() -> None:
    parser = argparse.ArgumentParser("python -m vf_search.verl_rows", description=__doc__)
    parser.add_argument("env", help="an environment's id or path")
    parser.add_argument("split", choices=["train", "eval"])
    parser.add_argument("path", help="the Parquet file to write")
    parser.add_argument("args", nargs="?", type=json.loads, default={}, help="the environment's arguments, a JSON object")
    given = parser.parse_args()
    try:
        print(f"{write_rows(given.env, given.split, given.path, given.args)} rows in {given.path}")
    except VfSearchError as error:
        parser.exit(2, f"{error}\n")


if __name__ == "__main__":
    _main()
