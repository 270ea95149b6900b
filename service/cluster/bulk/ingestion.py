"""Bulk ingestion with Ray Data: processes on all nodes take picture files of a shared folder into a cluster's shards.

Only names and outcomes pass through the calling process. A few batches per process wait at a time, and a batch on a
lost node is repeated.
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
NICENESS = 10  # of ingesting processes, so that searches go first
LOOK_AGAIN_S = 1.0
CAUSE = re.compile(r"^(?!ray\.)[A-Za-z_][\w.]*: .+$", re.MULTILINE)  # not Ray's own exceptions, which wrap the cause

_RECEIPT: TypeAdapter[IngestReceipt] = TypeAdapter(IngestReceipt)


class BatchTaker(Protocol):
    """Ingests batches of files, see BulkTaker."""

    def take(self, files: Sequence[OfferedFile], job_id: str) -> IngestReceipt:
        """Ingest a batch. Returns a receipt with the outcome of each file."""


class NodeTaker:
    """A BatchTaker in a process of its own, which processes rows that are batches of files."""

    def __init__(self, opened: Callable[[], BatchTaker]) -> None:
        """`opened` makes the BatchTaker in this process."""
        self._taker = opened()

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """The receipt of a batch, as JSON."""
        files = [OfferedFile(**fields) for fields in json.loads(row["files"])]
        return {"receipt": _RECEIPT.dump_json(self._taker.take(files, row["job_id"])).decode()}


def ingest_on_nodes(
    opened: Callable[[], BatchTaker],
    files: Sequence[OfferedFile],
    takers: int | None = None,
    cpus: float = 1,
    batch: int = FILES_AT_A_TIME,
) -> Iterator[IngestReceipt]:
    """The receipts of all batches, as they come. There are `takers` processes, or as many as fit with `cpus` each.

    UserError where a node fails repeatedly.
    """
    rows = [
        {"job_id": uuid.uuid4().hex, "files": json.dumps([asdict(file) for file in files[start : start + batch]])}
        for start in range(0, len(files), batch)
    ]
    if takers is None:
        takers = max(1, min(len(rows), int(ray.cluster_resources().get("CPU", 1) / cpus)))
    try:
        for result in streamed(NodeTaker, (opened,), rows, takers, cpus):
            yield _RECEIPT.validate_json(result["receipt"])
    except RayError as fault:
        raise UserError(
            f"a node failed: {innermost_cause(str(fault))}: run the same command again, it goes on where it was"
        ) from fault


def innermost_cause(text: str) -> str:
    """The last line of Ray's error text that names an exception; traces precede it, and advice follows."""
    causes = CAUSE.findall(text)
    return causes[-1] if causes else text.strip().splitlines()[-1]


def opened_bulk_taker(settings: Mapping[str, Any], deadline_s: float, began_at: float) -> BulkTaker:
    """The BulkTaker of a node, with the detector and the limits of the replicas."""
    os.nice(NICENESS)
    node_settings = Settings(**settings)
    folder = node_settings.data_dir / "bulk"
    make_folder(folder)
    remove_abandoned(folder)
    if node_settings.threads is not None:
        torch.set_num_threads(node_settings.threads)
    connection = ClusterConnection(deadline_s, lambda keys: None)
    return BulkTaker(
        finder=RegionFinder.reading(
            folder, detector_of(node_settings.detector, device_of(node_settings.device)), node_settings
        ),
        folder=folder,
        store=ShardsOfBulk(connection.shards.fan_out, connection, connection.shards.placement),
        limits=BulkLimits(
            max_file_bytes=node_settings.max_file_bytes, delete_grace_s=node_settings.delete_grace_s, began_at=began_at
        ),
    )


class BulkRun:
    """An ingestion on the cluster that this machine belongs to. UserError where there is none."""

    def __init__(self, cluster: ClusterSettings) -> None:
        self._settings: dict[str, Any] = answer_of(director_of(cluster).settings.remote())
        self._deadline_s = cluster.search_deadline_s
        self._connection = ClusterConnection(self._deadline_s, lambda keys: None)
        self._jobs = ClusterJobs(self._connection.shards.fan_out, self._connection.shards.placement)

    def receipts(self, files: Sequence[OfferedFile]) -> Iterator[IngestReceipt]:
        """Have all nodes ingest the files. Yields the receipts as they come."""
        yield from ingest_on_nodes(partial(opened_bulk_taker, self._settings, self._deadline_s, time.time()), files)

    def finished(self, job_ids: Sequence[str]) -> Iterator[JobStatus]:
        """The jobs, each once its pictures can be found. UserError where a shard does not answer for a long time."""
        yield from finished_jobs(self._jobs.job, job_ids)

    def close(self) -> None:
        """Close the connection to the cluster."""
        self._connection.close()


def finished_jobs(
    job: Callable[[str], JobStatus | None],
    job_ids: Sequence[str],
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[JobStatus]:
    """The jobs, each once it is done. UserError where a shard does not answer for a long time."""
    answered = clock()
    for job_id in job_ids:
        while True:
            try:
                status, answered = job(job_id), clock()
            except ShardLost as fault:
                if clock() - answered > SHARD_PATIENCE_S:
                    raise UserError(
                        f"the pictures are taken in, and stay; whether all can be found is not known: {fault.detail}"
                    ) from fault
            else:
                if status is not None and status.state == "done":
                    yield status
                if status is None or status.state == "done":
                    break
            sleep(LOOK_AGAIN_S)
