"""`regard restore`: restores deleted pictures, or a snapshot of a data directory."""

from http import HTTPStatus
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from service.cli.connection import connect
from service.cli.given_ids import IMAGE_ID, each_picture, ids_given, print_each
from service.cli.options import AsJson, Url
from service.cli.terminal.output import print_json, print_note, show_progress, visible

if TYPE_CHECKING:
    from regard_client import Client
    from regard_client.answers import ImageListed

WHAT_TO_GIVE = "give ids of deleted pictures, or a snapshot and a new folder for it"


def restore(
    what: Annotated[
        list[str],
        typer.Argument(
            metavar="ID... | SNAPSHOT DATA_DIR",
            help="Ids of deleted pictures (- reads them from a pipe), or a snapshot and a new folder.",
        ),
    ],
    skip_damaged: Annotated[
        bool,
        typer.Option(
            "--skip-damaged", help="Of a snapshot: leave out originals that are damaged or missing, and name them."
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Restore deleted pictures, or a snapshot.

    Pictures of a server, or a snapshot as a new data directory.
    """
    if what == ["-"] or all(IMAGE_ID.fullmatch(one) for one in what):
        if skip_damaged:
            raise typer.BadParameter("--skip-damaged is for a snapshot: leave it out")
        _restore_pictures(ids_given(what), url, as_json)
    elif len(what) == 2:
        _restore_snapshot(Path(what[0]), Path(what[1]), as_json, skip_damaged)
    else:
        wrong = next(one for one in what if not IMAGE_ID.fullmatch(one))
        raise typer.BadParameter(f"there is no picture {wrong}; {WHAT_TO_GIVE}")


def _restore_pictures(image_ids: list[str], url: str | None, as_json: bool) -> None:
    not_deleted = set[str]()
    with connect(url) as client:

        def bring_back(image_id: str) -> "ImageListed":
            if exists(client, image_id):
                not_deleted.add(image_id)
            return client.restore(image_id)

        def line(image: "ImageListed") -> str:
            outcome = "was not deleted" if image["image_id"] in not_deleted else "is back"
            return f"{image['image_id']} {image['filename']} {outcome}"

        print_each((image for _, image in each_picture(image_ids, bring_back)), line, as_json)


def exists(client: "Client", image_id: str) -> bool:
    """Whether the picture exists and is not deleted."""
    from regard_client import RequestRefused

    try:
        client.info(image_id)
    except RequestRefused as fault:
        if fault.status != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def _restore_snapshot(source: Path, data_dir: Path, as_json: bool, skip_damaged: bool) -> None:
    if not source.exists():
        raise typer.BadParameter(f"there is no snapshot {source}; {WHAT_TO_GIVE}")
    from service.storage.snapshots.restoration import restore_snapshot

    with show_progress() as progress:
        task = progress.add_task("copying files", None)
        restored = restore_snapshot(
            source, data_dir, each=lambda: task.advance(1), tell=print_note, skip_damaged=skip_damaged
        )
    counts = dict(restored)
    deleted = counts.pop("deleted")
    pictures = sum(counts.values())
    if as_json:
        print_json({"data_dir": str(data_dir), "pictures": pictures, "deleted": deleted})
    else:
        also = f", and {deleted} deleted ones, to be erased REGARD_DELETE_GRACE_S from now" * bool(deleted)
        folder = visible(str(data_dir))
        print(f"{folder} holds {pictures} pictures{also}; start `regard serve --data-dir {folder}`")
    print_note("views are rebuilt while it runs; API keys were not in the snapshot")
