"""A training's log."""

import json
from pathlib import Path

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from models.training.logs import open_log


def put_in_order(folder: Path, number: int) -> None:
    """Have the curves written last read after those of lower numbers: files of one second are in no order."""
    for curve in (folder / "tensorboard").glob("events*"):
        curve.rename(curve.with_name(f"{number}.{curve.name}"))


def test_entries_become_json_lines_and_curves(tmp_path: Path) -> None:
    for step in (1, 2):
        with open_log(tmp_path) as log:
            log({"step": step, "steps": 2, "ranking": 0.5 * step, "validation": {"model": "x", "rsum": 10.0}})
        put_in_order(tmp_path, step)
    entries = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [entry["ranking"] for entry in entries] == [0.5, 1.0]
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert {event.step: event.value for event in curves.Scalars("ranking")} == {1: 0.5, 2: 1.0}
    assert curves.Tags()["scalars"] == ["ranking", "validation/rsum"]


def test_steps_that_are_done_again_are_told_once(tmp_path: Path) -> None:
    for first, last in ((1, 7), (6, 9)):  # killed after step 7, of which 5 were saved
        with open_log(tmp_path) as log:
            for step in range(first, last + 1):
                log({"step": step, "steps": 9, "ranking": 10.0 * first + step})
        with (tmp_path / "log.jsonl").open("a") as file:
            file.write('{"step": 8, "ran')  # the kill came while a line was written
        put_in_order(tmp_path, first)
    with open_log(tmp_path):
        pass  # a finished training has nothing to tell
    *lines, cut = (tmp_path / "log.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    expected = [11.0, 12.0, 13.0, 14.0, 15.0, 66.0, 67.0, 68.0, 69.0]
    assert ([entry["ranking"] for entry in entries], cut) == (expected, '{"step": 8, "ran')
    curves = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [(event.step, event.value) for event in curves.Scalars("ranking")] == list(enumerate(expected, 1))


def test_a_training_that_was_killed_before_its_first_checkpoint_begins_its_log_anew(tmp_path: Path) -> None:
    for _ in range(2):
        with open_log(tmp_path) as log:
            for step in (0, 1):
                log({"step": step, "steps": 2})
    assert len((tmp_path / "log.jsonl").read_text().splitlines()) == 2
