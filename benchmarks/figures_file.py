"""Measured figures as JSON that people can read: few digits, and small objects on a line."""

import json
from pathlib import Path
from typing import Any

Report = dict[str, Any]
LONGEST_LINE = 1000  # characters, for the recalls of one ranking with their intervals


def rounded(value: Any) -> Any:
    """A report with every fraction to one digit and without `about`."""
    return rounded_to(value, 1)


def rounded_to(value: Any, digits: int) -> Any:
    """A report with every fraction to `digits` digits, without `about`, and with no interval of recalls but rsum's."""
    if isinstance(value, dict):
        if "rsum" in value.get("interval", ()):
            value = {**value, "interval": {"rsum": value["interval"]["rsum"]}}
        return {key: rounded_to(each, digits) for key, each in value.items() if key not in ("intervals", "about")}
    if isinstance(value, list | tuple):
        return [rounded_to(each, digits) for each in value]
    return round(value, digits) if isinstance(value, float) else value


def as_json(value: Any, indent: str = "") -> str:
    """JSON in which an object is on one line if it is short or holds no other objects."""
    line = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    is_deep = isinstance(value, dict) and any(isinstance(each, dict) for each in value.values())
    if not is_deep or len(indent) + len(line) <= LONGEST_LINE:
        return line
    deeper = indent + " "
    parts = [f"{deeper}{json.dumps(key)}:{as_json(each, deeper)}" for key, each in value.items()]
    return "{\n" + ",\n".join(parts) + f"\n{indent}}}"


def read(path: Path) -> Report:
    """A JSON object."""
    report: Report = json.loads(path.read_text(encoding="utf-8"))
    return report
