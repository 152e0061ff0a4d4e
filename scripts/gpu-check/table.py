"""The results as lines, as a Markdown table and as JSON."""

import json
import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

from running import Outcome

HEAD = ("check", "case", "result", "measured", "bound", "what")


def lines_of(outcome: Outcome) -> list[str]:
    """One check as it ends."""
    bad = [row for row in outcome.rows if row.status == "failed"]
    counts = f"{len(outcome.rows)} results" if not bad else f"{len(bad)} of {len(outcome.rows)} results failed"
    first = f"{outcome.name:>24}  {outcome.status:<9} {outcome.seconds:6.1f} s  {counts}"
    return [f"{first}; {outcome.text}" if outcome.text else first, *(f"{'':>26}{row.case}: {_number(row.measured)} above {_number(row.bound)} {row.text}" for row in bad)]


def table(outcomes: list[Outcome]) -> str:
    rows = [HEAD]
    for outcome in outcomes:
        rows += [(outcome.name, row.case, row.status, _number(row.measured), _number(row.bound), row.text) for row in outcome.rows]
        if outcome.text:
            rows.append((outcome.name, "the whole check", outcome.status, "", "", outcome.text))
    widths = [max(len(row[column]) for row in rows) for column in range(len(HEAD))]
    lines = [f"| {' | '.join(cell.ljust(width) for cell, width in zip(row, widths))} |" for row in rows]
    return "\n".join([lines[0], f"|{'|'.join('-' * (width + 2) for width in widths)}|", *lines[1:]])


def write_json(path: Path, facts: dict[str, Any], outcomes: list[Outcome], seconds: float) -> None:
    checks = [{key: value for key, value in asdict(outcome).items() if key != "facts"} for outcome in outcomes]
    for check in checks:
        for row in check["rows"]:
            # JSON has no NaN.
            row["measured"] = row["measured"] if row["measured"] is None or math.isfinite(row["measured"]) else str(row["measured"])
    path.write_text(json.dumps({"machine": facts, "seconds": round(seconds, 1), "checks": checks}, indent=2) + "\n")


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
