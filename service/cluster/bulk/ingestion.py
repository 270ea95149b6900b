"""Picture files of a folder that all nodes see, taken into a cluster's shards by processes on all nodes, with Ray Data.

Nothing but names and outcomes passes the process that asks for it. No more batches wait than a few for each process,
and one that a node was lost with is done again.
"""

import json
import os
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from typing import Any, Protocol

import ray
import torch
from pydantic import TypeAdapter
from ray.exceptions import RayError

from index.files import make_folder
from index.records import JobStatus
from service.cluster.bulk.extraction import streamed
from service.cluster.bulk.files import BulkLimits, OfferedFile
from service.cluster.bulk.taking import SHARD_PATIENCE_S, BulkTaker, ShardsOfBulk
from service.cluster.messages import ShardLost
from service.cluster.on_ray.bring_up import ClusterConnection
from service.cluster.on_ray.director import director_of
from service.cluster.on_ray.remote import answer_of
from service.cluster.routing.jobs import ClusterJobs
from service.errors import UserError
from service.ingest.intake import IngestReceipt
from service.model_loading import detector_of, device_of
from service.settings import ClusterSettings, Settings
from service.storage.temporary_folders import remove_abandoned
from service.worker.region_finder import RegionFinder

FILES_AT_A_TIME = 16
NICENESS = 10  # of processes that take pictures in: searches go first
NEXT_LOOK_S = 1.0
CAUSE = re.compile(r"^(?!ray\.)[A-Za-z_][\w.]*: .+$", re.MULTILINE)  # what Ray makes of it is no cause

_RECEIPT: TypeAdapter[IngestReceipt] = TypeAdapter(IngestReceipt)


class BatchTaker(Protocol):
    """Takes batches of files in, see BulkTaker."""

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        """Take a batch in; the receipt tells of each file."""


class NodeTaker:
    """One of them in a process of its own; rows are batches of files."""

    def __init__(self, opened: Callable[[], BatchTaker]) -> None:
        """`opened` makes it in this process."""
        self._taker = opened()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The receipt of a batch, as JSON."""
        files = [OfferedFile(**one) for one in json.loads(row["files"])]
        return {"receipt": _RECEIPT.dump_json(self._taker.take(files, row["job_id"])).decode()}


def ingest_on_nodes(
    opened: Callable[[], BatchTaker],
    files: Sequence[OfferedFile],
    takers: int | None = None,
    cpus: float = 1,
    batch: int = FILES_AT_A_TIME,
) -> Iterator[IngestReceipt]:
    """The receipts of all batches, as they come. There are `takers` takers at work, or as many as `cpus` fit into the
    cluster.

    UserError where a node fails again and again.
    """
    rows = [
        {"job_id": uuid.uuid4().hex, "files": json.dumps([asdict(one) for one in files[start : start + batch]])}
        for start in range(0, len(files), batch)
    ]
    if takers is None:
        takers = max(1, min(len(rows), int(ray.cluster_resources().get("CPU", 1) / cpus)))
    try:
        for found in streamed(NodeTaker, (opened,), rows, takers, cpus):
            yield _RECEIPT.validate_json(found["receipt"])
    except RayError as fault:
        raise UserError(
            f"a node failed: {innermost_cause(str(fault))}: run the same command again, it goes on where it was"
        ) from fault


def innermost_cause(text: str) -> str:
    """The last line that names an exception, of what Ray tells of one: there are traces before and advice after it."""
    named = CAUSE.findall(text)
    return named[-1] if named else text.strip().splitlines()[-1]


def opened_bulk_taker(settings: Mapping[str, Any], deadline_s: float, began_at: float) -> BulkTaker:
    """The taker of pictures on a node, with the detector and the limits of the replicas."""
    os.nice(NICENESS)
    own = Settings(**settings)
    folder = own.data_dir / "bulk"
    make_folder(folder)
    remove_abandoned(folder)
    if own.threads is not None:
        torch.set_num_threads(own.threads)
    connection = ClusterConnection(deadline_s, lambda keys: None)
    return BulkTaker(
        finder=RegionFinder.reading(folder, detector_of(own.detector, device_of(own.device)), own),
        folder=folder,
        store=ShardsOfBulk(connection.shards.fan_out, connection, connection.shards.placement),
        limits=BulkLimits(max_file_bytes=own.max_file_bytes, delete_grace_s=own.delete_grace_s, began_at=began_at),
    )


class BulkRun:
    """An ingestion on the cluster that this machine belongs to. UserError where there is none."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._settings: dict[str, Any] = answer_of(director_of(cluster).settings.remote())
        self._deadline_s = cluster.search_deadline_s
        self._connection = ClusterConnection(self._deadline_s, lambda keys: None)
        self._jobs = ClusterJobs(self._connection.shards.fan_out, self._connection.shards.placement)

    def receipts(self, files: Sequence[OfferedFile]) -> Iterator[IngestReceipt]:
        """Have all nodes take the files in; the receipts as they come."""
        yield from ingest_on_nodes(partial(opened_bulk_taker, self._settings, self._deadline_s, time.time()), files)

    def finished(self, job_ids: Sequence[str]) -> Iterator[JobStatus]:
        """The jobs, each once its pictures can be found. UserError where a shard is away for long."""
        yield from finished_jobs(self._jobs.job, job_ids)

    def close(self) -> None:
        """Look at the cluster no longer."""
        self._connection.close()


def finished_jobs(
    job: Callable[[str], JobStatus | None],
    job_ids: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[JobStatus]:
    """The jobs, each once it is done. UserError where a shard does not answer for long."""
    answered = clock()
    for job_id in job_ids:
        while True:
            try:
                found, answered = job(job_id), clock()
            except ShardLost as fault:
                if clock() - answered > SHARD_PATIENCE_S:
                    raise UserError(
                        f"the pictures are taken in, and stay; whether all can be found is not known: {fault.detail}"
                    ) from fault
            else:
                if found is not None and found.state == "done":
                    yield found
                if found is None or found.state == "done":
                    break
            sleep(NEXT_LOOK_S)
