"""`regard ingest`: upload of pictures to a server."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connection import connect
from service.cli.ingesting.descriptions import descriptions_by_name, supported_descriptions
from service.cli.ingesting.sending import send_files
from service.cli.ingesting.summary import IngestSummary, finish_ingestion
from service.cli.options import Albums, AsJson, Sidecars, Url
from service.cli.terminal.output import print_note
from service.errors import UserError

STILL_FOR_S = 3.0


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Picture files, or folders with pictures at any depth.")],
    captions: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='JSON lines: {"image": name as sent, "captions": [..]}, optionally "tags": {..} and "taken_at".',
        ),
    ] = None,
    albums: Albums = True,
    sidecars: Sidecars = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Keep watching the folders for new and changed pictures, until Ctrl-C.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(min=0, help="With --watch: send a file once it has not changed for this many seconds."),
    ] = STILL_FOR_S,
    on_cluster: Annotated[
        bool,
        typer.Option("--ray", help="Use all nodes of this machine's cluster, which must see the same files."),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send pictures to a server. Waits until they can be found, and prints a table of outcomes.

    `regard ingest-features` takes in features without pictures.
    """
    if on_cluster:
        if watch or url is not None:
            raise UserError("--ray takes in existing files, without a server: leave --watch and --url out")
        from service.cli.ingesting.bulk import take_in_on_cluster

        summary = take_in_on_cluster(paths, captions, albums)
    elif watch:
        summary = watch_folders(url, paths, captions, albums, settle, sidecars)
    else:
        summary = send_files(url, paths, captions, albums=albums, sidecars=sidecars)
    finish_ingestion(summary, as_json)


def watch_folders(
    url: str | None, folders: list[Path], captions: Path | None, albums: bool, still_for_s: float, sidecars: bool
) -> IngestSummary:
    """Send existing and new pictures of folders until Ctrl-C or SIGTERM. UserError for a missing folder, or if the
    service refuses the first request."""
    from service.cli.ingesting.sent_files import open_sent_files
    from service.cli.ingesting.watch import FolderWatch, watch_until_interrupted

    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"--watch watches folders, and {folder} is not one")
    given = descriptions_by_name(captions)
    with connect(url) as client:
        models = client.models()  # a wrong address or key fails here; later requests wait for the service
        sent = open_sent_files(client, folders, models.get("collection"))
        print_note(f"watching {', '.join(map(str, folders))}: Ctrl-C ends it")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # service managers end it as Ctrl-C does
        descriptions = supported_descriptions(given, lambda: models)
        watch = FolderWatch(client, folders, sent, still_for_s, descriptions, albums, sidecars=sidecars)
        return watch_until_interrupted(watch)
