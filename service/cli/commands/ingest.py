"""Take pictures in: sent to a server, or known by their features alone and written to a data directory."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.output import LOCAL, AsJson, Client, Url, note, print_json, progress
from service.cli.picture_files import picture_files
from service.client import Refused, batches

if TYPE_CHECKING:
    from models.datasets.feature_collection import FeatureCollection
    from models.extractors.base import Extractor
    from service.settings import Settings

app = typer.Typer()


@dataclass
class Sent:
    """What became of the files."""

    accepted: int = 0
    duplicates: int = 0
    rejected: list[dict[str, str]] = field(default_factory=list)
    failed: list[dict[str, str]] = field(default_factory=list)


@app.command()
def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Picture files, or folders to take everything below of.")],
    captions: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help='JSON lines: {"image": name as sent, "captions": [..]}.'),
    ] = None,
    url: Url = LOCAL,
    as_json: AsJson = False,
) -> None:
    """Send pictures to a server. Waits until they can be found, and lists what was turned away.

    Features without pictures are taken in by `regard ingest-features`.
    """
    finish(send(url, paths, captions), as_json)


@app.command()
def ingest_features(
    sources: Annotated[
        list[Path],
        typer.Argument(
            exists=True, help="A folder that `extract` or `convert tsv` wrote, one in SCAN's layout, or bottom-up TSVs."
        ),
    ],
    data_dir: Annotated[
        Path | None, typer.Option(help="Data directory to write to; REGARD_DATA_DIR if not given.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split of SCAN's layout.")] = "test",
    captions: Annotated[
        Path | None,
        typer.Option(
            exists=True, dir_okay=False, help='JSON lines: {"image": name, "captions": [..]}; not for SCAN\'s.'
        ),
    ] = None,
    extractor: Annotated[
        str, typer.Option(help="Name of what made the features, for SCAN's layout and TSVs.")
    ] = "bottom-up-36",
    regions: Annotated[int, typer.Option(min=1, help="Room for so many boxes of a picture, for TSVs.")] = 36,
    objects: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Names of a TSV's objects, a line each.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take in features without their pictures. They are searched by models made for such features.

    Writes to the data directory itself, so no worker may run on it meanwhile. Run again, it adds what is missing.
    """
    from models.datasets.feature_collection import open_collection  # noqa: PLC0415 - PyTorch comes with it
    from service.cli.settings_options import read_settings  # noqa: PLC0415

    settings = read_settings({} if data_dir is None else {"data_dir": data_dir})
    about = {name: said["captions"] for name, said in ({} if captions is None else read_manifest(captions)).items()}
    collection = open_collection(
        sources, split=split, extractor=extractor, num_regions=regions, objects=objects, captions=about
    )
    finish(take_in(collection, settings, set(about)), as_json)


def take_in(collection: "FeatureCollection", settings: "Settings", captioned: set[str]) -> Sent:
    """Write features to the data directory with a progress bar. Locked, ValueError."""
    from service.api.services import detector_of, device_of  # noqa: PLC0415
    from service.ingest.import_features import import_features  # noqa: PLC0415

    def detector() -> "Extractor":
        return detector_of(settings.detector, device_of(settings.device))

    sent, unused = Sent(), set(captioned)
    with progress() as bars:
        task = bars.add_task("taking in", total=collection.total)
        for taken in import_features(collection, settings.data_dir, detector):
            bars.advance(task, len(taken.names))
            unused.difference_update(taken.names)
            sent.accepted += taken.accepted
            sent.duplicates += taken.duplicates
            sent.rejected += [vars(one) for one in taken.rejected]
        bars.update(task, total=bars.tasks[task].completed)
    if unused:
        note(f"{len(unused)} captioned pictures are not among the features, as {min(unused)}")
    return sent


def send(url: str, paths: Sequence[Path], captions: Path | None = None) -> Sent:
    """Send everything with progress bars, and wait until it is searchable. FileNotFoundError, Refused, Unreachable."""
    files = list(picture_files(paths))
    if not files:
        raise FileNotFoundError(f"no pictures in {', '.join(map(str, paths))}")
    about = {} if captions is None else read_manifest(captions)
    sent, jobs = Sent(), []
    with Client(url) as client, progress() as bars:
        sending = bars.add_task("sending", total=len(files))
        finding = bars.add_task("finding regions", total=len(files))
        for batch in batches(files):
            manifest = {name: about[name] for name, _ in batch if name in about}
            jobs += _send_batch(client, batch, manifest, sent)
            bars.advance(sending, len(batch))
        for job_id, total in jobs:
            before = bars.tasks[finding].completed
            for job in client.wait(job_id):
                bars.update(finding, completed=before + job.done + job.failed)
            bars.update(finding, completed=before + total)
            sent.failed += [{"filename": one.filename, "problem": one.reason} for one in job.failures]
        bars.update(finding, total=bars.tasks[finding].completed)
    return sent


def _send_batch(
    client: Client, batch: list[tuple[str, Path]], manifest: dict[str, Any], sent: Sent
) -> list[tuple[str, int]]:
    """(job id, number of its pictures), none where every file was turned away."""
    try:
        answer = client.ingest(batch, manifest)
    except Refused as refused:
        if "rejected" not in refused.document:
            raise
        sent.rejected += refused.document["rejected"]
        return []
    sent.rejected += [one.model_dump() for one in answer.rejected]
    duplicates = sum(one.duplicate for one in answer.accepted)
    sent.duplicates += duplicates
    sent.accepted += len(answer.accepted) - duplicates
    return [(answer.job_id, len(answer.accepted))]


def read_manifest(path: Path) -> dict[str, Any]:
    """What is said about each file by a captions file; ValueError names a line that cannot be read."""
    from models.datasets.captions import iter_captions  # noqa: PLC0415

    return {line.image: {"captions": list(line.captions)} for line in iter_captions(path)}


def finish(sent: Sent, as_json: bool) -> None:
    """Print what became of the files; the status tells whether all were taken."""
    if as_json:
        print_json(vars(sent))
    else:
        report(sent)
    if sent.rejected or sent.failed:
        raise typer.Exit(1)


def report(sent: Sent) -> None:
    """What became of the files, for people."""
    for one in sent.rejected:
        note(f"turned away: {one['filename']}: {one['problem']}")
    for one in sent.failed:
        note(f"set aside: {one['filename']}: {one['problem']}")
    print(f"{sent.accepted} pictures taken in, {sent.duplicates} were there already")
