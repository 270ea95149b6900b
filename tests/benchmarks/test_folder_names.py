"""Folders that are drawn for the benchmark of folders' names."""

import numpy as np
import pytest

from benchmarks.folder_names import folder


@pytest.mark.parametrize(("share", "inside"), [(1.0, 3), (0.0, 0)])
def test_a_folder_holds_its_share_of_the_right_pictures(share: float, inside: int) -> None:
    drawn = folder(np.random.default_rng(0), [2, 5, 7], 20, 8, share)
    assert len(set(drawn)) == 8
    assert len({2, 5, 7} & set(drawn)) == inside
