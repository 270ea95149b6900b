"""The OpenAPI document with references resolved."""

from collections.abc import Mapping
from typing import Any


def declared_responses(operation: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Status -> the response of an operation, with references resolved."""
    known = document["components"]["responses"]
    return {
        status: known[told["$ref"].rpartition("/")[2]] if "$ref" in told else told
        for status, told in operation["responses"].items()
    }
