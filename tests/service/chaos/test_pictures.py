"""Drawn pictures: the same from the same seed, no two alike, and of every kind that is taken."""

import io

from PIL import Image

from service.chaos.pictures import DRAWN_KINDS, draw


def test_no_two_are_alike_and_a_seed_always_draws_the_same() -> None:
    drawn = [draw(7, number) for number in range(150)]
    assert drawn == [draw(7, number) for number in range(150)]
    ids = {one.image_id for one in [*drawn, *(draw(8, number) for number in range(150))]}
    assert len(ids) == 300
    assert {one.name.rpartition(".")[2] for one in drawn} == set(DRAWN_KINDS.values())
    for one in drawn:
        with Image.open(io.BytesIO(one.content)) as picture:
            picture.load()
