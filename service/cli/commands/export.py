"""`regard export`: copies of stored pictures in a folder."""

import hashlib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from http import HTTPStatus
from itertools import chain
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.export_folder import ExportFolder
from service.cli.options import AsJson, Url
from service.cli.picture_filter import OfDate, Since, Until, WithTags, picture_filter
from service.cli.terminal.output import print_json, print_note, print_table, show_progress, visible
from service.errors import user_input
from service.storage.originals import image_id_of
from service.storage.picture_names import is_picture_name

if TYPE_CHECKING:
    from regard_client import Client
    from regard_client.answers import ImageListed

LISTED_AT_ONCE = 500  # pictures


class DamagedOriginal(Exception):
    """The server's file differs from the one that was uploaded; the message says what to do."""


@dataclass
class ExportSummary:
    """The outcome of an export: how many pictures were written, had their file there already, or have no file."""

    written: int = 0
    there_already: int = 0
    without_file: int = 0
    """Pictures stored as features alone."""
    problems: list[dict[str, str]] = field(default_factory=list)
    """Pictures that could not be written, with the reasons."""
    no_longer_listed: list[str] = field(default_factory=list)
    """Files of pictures that no longer exist, which are kept."""


def export(
    folder: Annotated[Path, typer.Argument(file_okay=False, help="The folder to write to; created if missing.")],
    tags: WithTags = None,
    date: OfDate = None,
    since: Since = None,
    until: Until = None,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Write a server's original files to a folder.

    Their descriptions are written to descriptions.jsonl. Run again, it adds what is missing. `regard ingest` reads such
    a folder.
    """
    condition = picture_filter(tags, date, since, until)
    with connect(url) as client:
        images = client.images(filter=condition, page_size=LISTED_AT_ONCE)
        one = next(images, None)  # first, so that a wrong key or an empty result creates no folder
        is_none = one is None and condition is not None
        images = chain([] if one is None else [one], images)
        summary = ExportSummary() if is_none else export_pictures(client, images, folder, whole=condition is None)
    if as_json:
        print_json(asdict(summary))
    elif is_none:
        print("no pictures match")
    else:
        print_outcome(summary)
    if summary.problems:
        raise typer.Exit(1)


def export_pictures(
    client: "Client", images: "Iterator[ImageListed]", folder: Path, whole: bool = False
) -> ExportSummary:
    """Write pictures to a folder, with progress. Descriptions of written pictures are saved even after an error.

    `whole`: these are all stored pictures, so that other files of earlier exports are reported. UserError if the folder
    has a descriptions.jsonl of another kind.
    """
    summary, listed = ExportSummary(), set[str]()
    folder.mkdir(parents=True, exist_ok=True)
    with user_input():
        target = ExportFolder(folder)
    with show_progress() as progress:
        task = progress.add_task("writing", None)
        try:
            for image in images:
                listed.add(image["image_id"])
                export_picture(client, image, target, summary)
                task.advance()
            if whole:
                summary.no_longer_listed = target.no_longer_listed(listed)
        finally:
            target.save()
        task.finish()
    return summary


def export_picture(client: "Client", image: "ImageListed", target: ExportFolder, summary: ExportSummary) -> None:
    """Write one picture unless its file exists, and count it."""
    from regard_client import RequestRefused

    if image["url"] is None:
        summary.without_file += 1
        return
    image_id, filename = image["image_id"], image["filename"]
    try:
        path = PurePosixPath(filename)
        extension = path.suffix[1:] if is_picture_name(path) else client.info(image_id)["kind"]
        name = target.find(image_id, extension, filename)
        summary.there_already += name is not None
        if name is None:
            name = target.add(image_id, extension, filename, whole_original(client, image_id))
            summary.written += 1
        target.describe(name, image)
    except RequestRefused as refused:
        if refused.status != HTTPStatus.NOT_FOUND:
            raise
        summary.problems.append({"image_id": image_id, "filename": filename, "problem": refused.reason})
    except DamagedOriginal as fault:
        summary.problems.append({"image_id": image_id, "filename": filename, "problem": str(fault)})


def whole_original(client: "Client", image_id: str) -> bytes:
    """The file of a picture; DamagedOriginal unless the picture's id is its digest."""
    content = client.original(image_id)
    if image_id_of(hashlib.sha256(content).hexdigest()) != image_id:
        raise DamagedOriginal("Its file is damaged on the server; upload the same file again to restore it.")
    return content


def print_outcome(summary: ExportSummary) -> None:
    """Print the outcome for people, with a table that counts every picture."""
    for one in summary.problems:
        print_note(f"not written: {visible(one['filename'])}: {one['problem']}")
    for name in summary.no_longer_listed:
        print_note(f"file of a picture that no longer exists: {visible(name)}")
    rows = [
        ("written", summary.written),
        ("there already", summary.there_already),
        ("features without a file", summary.without_file),
        ("not written", len(summary.problems)),
        ("files of former pictures", len(summary.no_longer_listed)),
    ]
    found = [[name, str(count)] for name, count in rows if count]
    print_table("outcome", "pictures", rows=found or [["written", "0"]])
