"""Picture files taken in by all nodes of a cluster, and what becomes of them."""

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
    tell_unmatched,
)
from service.cli.ingesting.sending import found_pictures
from service.cli.ingesting.summary import IngestSummary, SentFile
from service.cli.terminal.output import show_progress

if TYPE_CHECKING:
    from service.cluster.bulk.files import OfferedFile


def take_in_on_cluster(paths: Sequence[Path], captions: Path | None, albums: bool) -> IngestSummary:
    """Have all nodes take pictures in, with progress bars, and wait until they can be found. Raises UserError where
    that cannot begin or go on."""
    cluster = cluster_settings(None)
    from service.cluster.bulk.ingestion import BulkRun  # noqa: PLC0415 - Ray comes with it

    found = found_pictures(paths)
    texts, tagged = descriptions_by_name(captions), found.albums if albums else {}
    tell_unmatched(texts, {name for name, _ in found.pictures})
    files = list(offered_files(found.pictures, texts, tagged))
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
    files: Iterable[tuple[str, Path]], said: Descriptions, albums: Mapping[Path, str]
) -> "Iterator[OfferedFile]":
    """(name, file) pairs with what is said of each."""
    from service.cluster.bulk.files import OfferedFile  # noqa: PLC0415 - PyTorch comes with it

    for number, (name, path) in enumerate(files):
        known = said.get(name, NO_DESCRIPTION)
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
