"""The OpenAPI document as it is read: references followed."""

from collections.abc import Mapping
from typing import Any


def told_responses(operation: Mapping[str, Any], document: Mapping[str, Any]) -> dict[str, Any]:
    """Status -> the response of an operation, which the document may keep elsewhere."""
    known = document["components"]["responses"]
    return {
        status: known[told["$ref"].rpartition("/")[2]] if "$ref" in told else told
        for status, told in operation["responses"].items()
    }
