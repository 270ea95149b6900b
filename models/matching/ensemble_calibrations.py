"""Calibrations that were fitted to the scores of ensembles: ensembles.json beside the last member's weights.

The keys are the members' digests, in order and joined by +, so that a calibration for other weights is never used.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from models.matching.calibration import Calibration
from models.matching.checkpoint import BadCheckpoint
from models.whole_files import alone_in, write_whole

ENSEMBLES = "ensembles.json"


def read_ensemble_calibration(folder: Path, digests: Sequence[str]) -> Calibration | None:
    """The calibration of the members with these digests, of which `folder` is the last one's; None if there is none.
    Raises BadCheckpoint for a damaged file."""
    stored = _stored(folder).get("+".join(digests))
    try:
        return None if stored is None else Calibration.from_dict(stored)
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / ENSEMBLES}: {fault}") from fault


def save_ensemble_calibration(folder: Path, digests: Sequence[str], calibration: Calibration) -> None:
    """Add the calibration to those of other ensembles with the same last member, safely with concurrent writers. Raises
    BadCheckpoint if their file cannot be read."""
    with alone_in(folder):
        stored = _stored(folder) | {"+".join(digests): calibration.as_dict()}
        write_whole(folder / ENSEMBLES, (json.dumps(stored, indent=1) + "\n").encode())


def _stored(folder: Path) -> dict[str, Any]:
    if not (folder / ENSEMBLES).is_file():
        return {}
    try:
        stored = json.loads((folder / ENSEMBLES).read_text(encoding="utf-8"))
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / ENSEMBLES}: {fault}") from fault
    if not isinstance(stored, dict):
        raise BadCheckpoint(f"{folder / ENSEMBLES} holds no calibrations by digests")
    return stored
