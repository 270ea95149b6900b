"""Records to fill a slab with."""

from typing import Any

import numpy as np
import numpy.typing as npt

LAYOUT = {"features": ((3, 5), "f2"), "label": ((), "i8"), "mask": ((3,), "?")}
Records = dict[str, npt.NDArray[Any]]


def records(count: int, seed: int = 0) -> Records:
    """Records that no two rows and no two seeds share."""
    random = np.random.default_rng(seed)
    return {
        "features": random.normal(size=(count, 3, 5)).astype(np.float16),
        "label": random.integers(0, 2**60, count),
        "mask": random.random((count, 3)) < 0.5,
    }


def same(found: Records, expected: Records) -> None:
    assert found.keys() == expected.keys()
    for name, array in expected.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)
