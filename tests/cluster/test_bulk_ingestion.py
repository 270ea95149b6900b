"""Batches of files reach processes on all nodes, each once, and their receipts come back."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from service.cluster.bulk.files import OfferedFile
from service.cluster.bulk.ingestion import ingest_on_nodes
from service.cluster.demo.local_nodes import RayCluster
from service.errors import UserError
from service.ingest.intake import AcceptedFile, IngestReceipt, RejectedFile

pytestmark = [pytest.mark.e2e, pytest.mark.slow, pytest.mark.timeout(1200)]


class NotingTaker:
    """Notes the files that came to its process; takes what has an album."""

    def __init__(self, folder: Path) -> None:
        self._notes = folder / str(os.getpid())

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        with self._notes.open("a") as notes:
            notes.writelines(f"{one.number} {one.name} {job_id}\n" for one in files)
        good = [one for one in files if one.tags]
        accepted = [AcceptedFile(one.name, one.captions[0], duplicate=False) for one in good]
        return IngestReceipt(job_id, accepted, [RejectedFile(one.name, "why") for one in files if one not in good])


def test_every_batch_is_taken_once(ray_cluster: RayCluster, tmp_path: Path) -> None:
    albums = [{"album": f"{n}"} if n % 5 else {} for n in range(22)]
    files = [OfferedFile(n, f"file {n}", f"/p/{n}", [f"of {n}"], tags) for n, tags in enumerate(albums)]
    found = list(ingest_on_nodes(partial(NotingTaker, tmp_path), files, takers=2, cpus=0.5, batch=4))
    assert sorted(one.image_id for receipt in found for one in receipt.accepted) == sorted(
        one.name for one in files if one.tags
    )
    assert {(one.image_id, one.filename) for receipt in found for one in receipt.accepted} <= {
        (one.name, one.captions[0]) for one in files
    }
    assert sorted(one.filename for receipt in found for one in receipt.rejected) == sorted(
        one.name for one in files if not one.tags
    )
    notes = [line.split() for path in tmp_path.iterdir() for line in path.read_text().splitlines()]
    assert sorted(int(number) for number, *_ in notes) == list(range(22))
    assert {job_id for *_, job_id in notes} == {receipt.job_id for receipt in found}
    assert len({receipt.job_id for receipt in found}) == 6


class BrokenTaker(NotingTaker):
    """Fails."""

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        raise RuntimeError("no detector here")


def test_a_node_that_fails_is_said(ray_cluster: RayCluster, tmp_path: Path) -> None:
    files = [OfferedFile(0, "one", "/p/one")]
    with pytest.raises(UserError, match=r"no detector here.*goes on where it was"):
        list(ingest_on_nodes(partial(BrokenTaker, tmp_path), files, takers=1, cpus=0.5))
