"""Features that detectors on three nodes find are those that one process finds, also when a run was ended midway."""

from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from models.datasets.feature_store import ExtractedFeatures, extract_features, open_features
from models.extractors.base import Detections
from service.cluster.bulk.extraction import extract_on_nodes
from service.cluster.demo.local_nodes import RayCluster
from tests.support.fakes import FakeExtractor
from tests.support.pictures import corners

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]

PICTURES, BATCH = 22, 4


@pytest.fixture
def photographs(tmp_path: Path) -> dict[str, Path]:
    """Drawn pictures of different widths."""
    folder = tmp_path / "pictures"
    folder.mkdir()
    for number in range(PICTURES):
        corners(6 + 3 * number, 4 + number).save(folder / f"{number:02}.png")
    return {path.name: path for path in sorted(folder.iterdir())}


def assert_equal(found: ExtractedFeatures, expected: ExtractedFeatures) -> None:
    """Equal to the last bit."""
    for name in Detections.__dataclass_fields__:
        assert np.array_equal(getattr(found, name), getattr(expected, name)), name
    assert (found.ids, found.digest, found.label_names) == (expected.ids, expected.digest, expected.label_names)


def test_nodes_find_what_one_process_finds(
    ray_cluster: RayCluster, photographs: dict[str, Path], tmp_path: Path
) -> None:
    alone, together = tmp_path / "alone", tmp_path / "together"
    assert list(extract_features(FakeExtractor(), photographs, alone, BATCH))[-1] == PICTURES

    extract = partial(extract_on_nodes, FakeExtractor, photographs, together, detectors=3, cpus=0.5, batch=BATCH)
    assert list(islice(extract(), 2)) == [4, 8]
    with pytest.raises(ValueError, match="8 of 22"):
        open_features(together)
    assert list(extract()) == [12, 16, 20, 22]
    assert list(extract()) == []
    assert_equal(open_features(together), open_features(alone))
