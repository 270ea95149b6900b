"""Digests of folders of weights, which identify a model wherever its results are stored."""

import hashlib
from collections.abc import Iterable


def digest_of_contents(contents: Iterable[bytes]) -> str:
    """First 16 hex digits of the SHA-256 over the contents of files, in order."""
    state = hashlib.sha256()
    for content in contents:
        state.update(hashlib.sha256(content).digest())
    return state.hexdigest()[:16]
