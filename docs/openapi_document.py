"""Writes the OpenAPI document: `make docs` runs it, a test compares what it writes with what is checked in.

python -m docs.openapi_document > docs/openapi.json
"""

import json
import sys

from service.api.app import create_routes


def document() -> str:
    """docs/openapi.json."""
    return json.dumps(create_routes().openapi(), indent=0, separators=(",", ":"), ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(document())
