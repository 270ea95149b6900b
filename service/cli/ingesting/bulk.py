"""Ingestion of picture files by all nodes of a cluster, and its outcome."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from service.cli.commands.cluster import cluster_settings
from service.cli.ingesting.descriptions import (
    NO_DESCRIPTION,
    Descriptions,
    album_tag,
    descriptions_by_name,
    note_unmatched,
)
from service.cli.ingesting.sending import found_pictures
from service.cli.ingesting.summary import IngestSummary, SentFile
from service.cli.terminal.output import show_progress

if TYPE_CHECKING:
    from service.cluster.bulk.files import OfferedFile


def take_in_on_cluster(paths: Sequence[Path], captions: Path | None, albums: bool) -> IngestSummary:
    """Ingest pictures on all nodes, with progress bars, and wait until they are searchable. UserError if that fails."""
    cluster = cluster_settings(None)
    from service.cluster.bulk.ingestion import BulkRun

    found = found_pictures(paths, sidecars=False)
    descriptions = descriptions_by_name(captions)
    note_unmatched(descriptions, {name for name, _ in found.pictures})
    files = list(offered_files(found.pictures, descriptions, found.albums if albums else {}))
    summary = IngestSummary(skipped=dict(found.skipped))
    with closing(BulkRun(cluster)) as run, show_progress() as progress:
        taking = progress.add_task("taking in", len(files))
        jobs = []
        for receipt in run.receipts(files):
            for accepted in receipt.accepted:
                file = SentFile(accepted.filename, accepted.duplicate, accepted.restored)
                summary.count_accepted(accepted.image_id, file)
            for rejected in receipt.rejected:
                summary.count_rejected(rejected.filename, rejected.problem)
            jobs += [receipt.job_id] if receipt.job_id else []
            taking.advance(len(receipt.accepted) + len(receipt.rejected))
        waiting = progress.add_task("until they can be found", len(jobs))
        for job in run.finished(jobs):
            for failure in job.failures:
                summary.count_failed(failure.image_id, failure.reason)
            waiting.advance(1)
        waiting.finish()
    return summary


def offered_files(
    files: Iterable[tuple[str, Path]], descriptions: Descriptions, albums: Mapping[Path, str]
) -> "Iterator[OfferedFile]":
    """Files given as (name, path), with their descriptions."""
    from service.cluster.bulk.files import OfferedFile

    for number, (name, path) in enumerate(files):
        known = descriptions.get(name, NO_DESCRIPTION)
        yield OfferedFile(
            number,
            name,
            str(path.resolve()),
            captions=known.captions,
            tags=known.tags,
            taken_at=known.taken_seconds,
            default_tags=album_tag(albums.get(path)),
            decided=known.decided,
        )
