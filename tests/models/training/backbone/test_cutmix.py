"""CutMix: what a mixed picture shows, and the shares of it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from models.training.backbone.cutmix import cut_mix


@given(
    count=st.integers(1, 5),
    height=st.integers(1, 40),
    width=st.integers(1, 40),
    most=st.floats(0, 1),
    seed=st.integers(0, 2**31),
)
def test_the_shares_are_those_of_the_pixels(count: int, height: int, width: int, most: float, seed: int) -> None:
    torch.manual_seed(seed)
    colours = torch.arange(count, dtype=torch.uint8)
    pictures = colours[:, None, None, None].expand(count, 3, height, width)
    mixed, shown = cut_mix(pictures, most)
    counted = (mixed[:, 0].flatten(1)[:, :, None] == colours).float().mean(1)
    torch.testing.assert_close(shown, counted)
    assert (colours[:, None, None, None] == pictures).all()  # the originals stay


def test_a_rectangle_is_pasted_at_its_own_place() -> None:
    torch.manual_seed(0)
    pictures = torch.randint(0, 255, (3, 3, 30, 20), dtype=torch.uint8)
    mixed, shown = cut_mix(pictures, 0.5)
    foreign = (mixed != pictures).any(1)
    assert foreign.any()
    assert torch.equal(mixed, torch.where(foreign[:, None], pictures.roll(-1, 0), pictures))
    rows, columns = (foreign[0].any(axis).nonzero()[:, 0] for axis in (1, 0))
    inside = foreign[0][rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    assert inside.float().mean() > 0.9  # but for pixels that are equal in both
    assert 0 < float(shown[0, 1]) <= 0.5
