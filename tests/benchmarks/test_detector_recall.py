"""The recall of a detector: nothing is written but where that is asked for."""

import sys
from pathlib import Path

import pytest

from benchmarks.detector_recall import main


def test_the_file_of_pseudo_labels_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = [f"--{name}={tmp_path / name}" for name in ("detector", "teacher", "captions")]
    monkeypatch.setattr(sys, "argv", ["detector_recall", *given])
    with pytest.raises(SystemExit, match="2"):
        main()
