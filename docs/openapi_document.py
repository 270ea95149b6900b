"""Writes the OpenAPI document: `make docs` runs it, a test compares what it writes with what is checked in.

python -m docs.openapi_document > docs/openapi.json
"""

import json
import sys
from typing import Any

from service.api.app import create_routes

WIDTH = 120  # of a line that holds a whole object or list


def document() -> str:
    """docs/openapi.json."""
    return as_lines(create_routes().openapi()) + "\n"


def as_lines(value: Any) -> str:
    """JSON in which what fits in a line is one."""
    whole = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    if not isinstance(value, dict | list) or len(whole) <= WIDTH:
        return whole
    if isinstance(value, list):
        return "[\n" + ",\n".join(map(as_lines, value)) + "\n]"
    return "{\n" + ",\n".join(f"{json.dumps(key)}:{as_lines(one)}" for key, one in value.items()) + "\n}"


if __name__ == "__main__":
    sys.stdout.write(document())
