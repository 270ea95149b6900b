"""Calibrations that were fitted to the mean scores of ensembles: ensembles.json beside the last member's weights.

The members' digests, in their order and with + between, name an ensemble there, so that what was fitted to other
weights is never used.
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
    """The calibration of the members with these digests, the last one's folder being `folder`; None where none was
    fitted. BadCheckpoint for a damaged file."""
    stored = _stored(folder).get("+".join(digests))
    try:
        return None if stored is None else Calibration.from_dict(stored)
    except ValueError as fault:
        raise BadCheckpoint(f"{folder / ENSEMBLES}: {fault}") from fault


def save_ensemble_calibration(folder: Path, digests: Sequence[str], calibration: Calibration) -> None:
    """Put the calibration beside those of other ensembles with the same last member, also of those that others put
    there at the same time. Raises BadCheckpoint where the file of those cannot be read."""
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
