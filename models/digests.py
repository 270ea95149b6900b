"""Digests of folders of weights: what a model is called by wherever its results are stored."""

import hashlib
from pathlib import Path


def digest_of(folder: Path, names: tuple[str, ...]) -> str:
    """First 16 hex digits of the SHA-256 over the named files, in order."""
    state = hashlib.sha256()
    for name in names:
        state.update(hashlib.sha256((folder / name).read_bytes()).digest())
    return state.hexdigest()[:16]
