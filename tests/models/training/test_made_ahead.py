"""Batches that are made ahead: all of them, in order, and none that nobody takes."""

from models.training.made_ahead import made_ahead


def test_every_step_is_made_once_and_no_other() -> None:
    asked: list[int] = []

    def make(step: int) -> int:
        asked.append(step)
        return step * step

    assert list(made_ahead(make, range(2, 5))) == [4, 9, 16]
    assert asked == [2, 3, 4]
    assert list(made_ahead(make, range(5, 5))) == []
    assert len(asked) == 3
