"""Picture files sent to a service, and what becomes of them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import SecretStr

from service.cli.connection import connect
from service.cli.ingest_summary import IngestSummary, captions_by_name
from service.cli.output import show_progress
from service.cli.picture_files import find_files
from service.errors import UserError

if TYPE_CHECKING:
    from service.client import Client


def send_files(
    url: str | None,
    paths: Sequence[Path],
    captions: Path | None = None,
    api_key: SecretStr | None = None,
    albums: bool = True,
) -> IngestSummary:
    """Send pictures with progress bars, and wait until they are searchable. UserError.

    With the key of the environment, if no other is given; `albums`: with the names of their folders as tags.
    """
    from service.client import upload_batches  # noqa: PLC0415 - half a second, which `--help` should not take

    found = find_files(paths)
    files = found.pictures
    if not files:
        skipped = ", ".join(f"{count} {kind}" for kind, count in sorted(found.skipped.items()))
        raise UserError(f"no pictures in {', '.join(map(str, paths))}{skipped and f' (skipped: {skipped})'}")
    texts, tagged = captions_by_name(captions), found.albums if albums else {}
    summary, jobs = IngestSummary(skipped=dict(found.skipped)), []
    with connect(url, api_key) as client, show_progress() as progress:
        sending = progress.add_task("sending", len(files))
        detecting = progress.add_task("finding regions", len(files))
        for batch in upload_batches(files):
            jobs += send_batch(client, batch, manifest_of(batch, texts, tagged), summary)
            sending.advance(len(batch))
        for job_id, total in jobs:
            before = detecting.completed
            for job in client.wait(job_id):
                detecting.update(before + job.done + job.failed)
            detecting.update(before + total)
            summary.count_failures(job.failures)
        detecting.finish()
    return summary


def manifest_of(
    batch: Sequence[tuple[str, Path]], captions: Mapping[str, list[str]], albums: Mapping[Path, str]
) -> dict[str, dict[str, Any]]:
    """What is known of the files of a batch."""
    entries: dict[str, dict[str, Any]] = {name: {"captions": captions[name]} for name, _ in batch if name in captions}
    for name, path in batch:
        if path in albums:
            entries.setdefault(name, {})["tags"] = {"album": albums[path]}
    return entries


def send_batch(
    client: "Client", batch: Sequence[tuple[str, Path]], manifest: Mapping[str, Any], summary: IngestSummary
) -> list[tuple[str, int]]:
    """Send one request and count its files. (job id, number of its pictures); none where every file was rejected."""
    from service.client import RequestRefused  # noqa: PLC0415

    try:
        answer = client.ingest(batch, manifest)
    except RequestRefused as refused:
        if "rejected" not in refused.document:
            raise
        summary.rejected += refused.document["rejected"]
        return []
    summary.rejected += [one.model_dump() for one in answer.rejected]
    summary.count_accepted(answer.accepted)
    return [(answer.job_id, len(answer.accepted))]
