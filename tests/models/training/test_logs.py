"""A training's log."""

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from models.training.logs import open_log


def test_entries_become_json_lines_and_curves(tmp_path: Path) -> None:
    for step in (1, 2):
        with open_log(tmp_path) as log:
            log({"step": step, "steps": 2, "ranking": 0.5 * step, "validation": {"model": "x", "rsum": 10.0}})
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["ranking"] for entry in entries] == [0.5, 1.0]
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {event.step: event.value for event in curves.Scalars("ranking")} == {1: 0.5, 2: 1.0}
    assert curves.Tags()["scalars"] == ["ranking", "validation/rsum"]
