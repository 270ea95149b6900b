"""`regard ingest-features`: region features without pictures, written to a data directory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.feature_extraction import load_detector
from service.cli.ingesting.descriptions import captions_by_name
from service.cli.ingesting.summary import IngestSummary, finish_ingestion
from service.cli.options import AsJson
from service.cli.settings_options import read_settings
from service.cli.terminal.output import print_note, show_progress
from service.errors import UserError, user_input
from service.model_names import check_detector

if TYPE_CHECKING:
    from models.datasets.feature_collection import FeatureCollection
    from service.settings import Settings


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
        str, typer.Option(help="Name of the extractor of the features, for SCAN's layout and TSVs.")
    ] = "bottom-up-36",
    regions: Annotated[int, typer.Option(min=1, help="The largest number of boxes of a picture in a TSV.")] = 36,
    objects: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="Names of a TSV's objects, one per line.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take in features without their pictures. Models made for such features search them.

    It writes to the data directory itself, so no worker may run on it meanwhile. Run again, it adds what is missing.
    """
    settings = read_settings({} if data_dir is None else {"data_dir": data_dir})
    check_detector(settings.detector)
    texts = captions_by_name(captions)
    _check_sources(sources, split)
    from models.datasets.feature_collection import open_collection

    with user_input():
        collection = open_collection(
            sources, split=split, extractor=extractor, num_regions=regions, objects=objects, captions=texts
        )
    finish_ingestion(_import(collection, settings, set(texts)), as_json)


def _check_sources(sources: list[Path], split: str) -> None:
    """UserError if the sources have an unknown layout. Does not read files."""
    first = sources[0]
    if first.is_dir() and len(sources) > 1:
        raise UserError("give one folder, or TSV files")
    if first.is_dir() and not any((first / name).is_file() for name in ("manifest.json", f"{split}_ims.npy")):
        raise UserError(f"{first} holds neither manifest.json, as `regard extract` writes, nor {split}_ims.npy")


def _import(collection: "FeatureCollection", settings: "Settings", captioned: set[str]) -> IngestSummary:
    """Write features to the data directory with a progress bar."""
    from service.ingest.import_features import import_features

    summary, unused = IngestSummary(), set(captioned)
    with show_progress() as progress:
        task = progress.add_task("taking in", collection.total)
        for batch in import_features(
            collection,
            settings.data_dir,
            lambda: load_detector(settings.detector, settings.device),
            settings.delete_grace_s,
        ):
            task.advance(len(batch.names))
            unused.difference_update(batch.names)
            summary.accepted += batch.accepted
            summary.restored += batch.restored
            summary.duplicates += batch.duplicates
            summary.rejected += [{"filename": one.filename, "problem": one.problem} for one in batch.rejected]
        task.finish()
    if unused:
        print_note(f"{len(unused)} captioned pictures are not among the features, such as {min(unused)}")
    return summary
