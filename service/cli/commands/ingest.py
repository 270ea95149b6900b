"""`regard ingest`: pictures sent to a server."""

import signal
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connection import connect
from service.cli.ingesting.descriptions import descriptions_by_name, understood
from service.cli.ingesting.sending import send_files
from service.cli.ingesting.summary import IngestSummary, finish_ingestion
from service.cli.options import Albums, AsJson, Url
from service.cli.terminal.output import print_note
from service.errors import UserError

STILL_FOR_S = 3.0


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Picture files, or folders to take everything below of.")],
    captions: Annotated[
        Path | None,
        typer.Option(
            exists=True,
            dir_okay=False,
            help='JSON lines: {"image": name as sent, "captions": [..]}; "tags": {..} and "taken_at" if you like.',
        ),
    ] = None,
    albums: Albums = True,
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on watching the folders for new and changed pictures, until Ctrl-C.")
    ] = False,
    settle: Annotated[
        float,
        typer.Option(min=0, help="With --watch: send a file when it has stayed the same for this many seconds."),
    ] = STILL_FOR_S,
    on_cluster: Annotated[
        bool,
        typer.Option(
            "--ray", help="By all nodes of the cluster that this machine belongs to, which see the same files."
        ),
    ] = False,
    url: Url = None,
    as_json: AsJson = False,
) -> None:
    """Send pictures to a server. Waits until they can be found, and ends with a table of what became of every file.

    Features without pictures are taken in by `regard ingest-features`.
    """
    if on_cluster:
        if watch or url is not None:
            raise UserError("--ray takes in what is there, without a server: leave --watch and --url out")
        from service.cli.ingesting.bulk import take_in_on_cluster  # noqa: PLC0415 - Ray comes with it

        summary = take_in_on_cluster(paths, captions, albums)
    elif watch:
        summary = watch_folders(url, paths, captions, albums, settle)
    else:
        summary = send_files(url, paths, captions, albums=albums)
    finish_ingestion(summary, as_json)


def watch_folders(
    url: str | None, folders: list[Path], captions: Path | None, albums: bool, still_for_s: float
) -> IngestSummary:
    """Send the pictures that lie in folders and those that come, until Ctrl-C or a request to end. Raises UserError
    where a folder is none, or the service refuses the first request."""
    from service.cli.ingesting.still_files import SentFiles  # noqa: PLC0415 - no other command needs these
    from service.cli.ingesting.watch import FolderWatch, sent_files_path, watch_until_interrupted  # noqa: PLC0415

    for folder in folders:
        if not folder.is_dir():
            raise UserError(f"--watch watches folders, and {folder} is none")
    said = descriptions_by_name(captions)
    with connect(url) as client:
        models = client.models()  # a wrong address or key ends it here; later, one that does not answer is waited for
        path = sent_files_path(client.url, folders)
        try:
            sent = SentFiles(path)
        except OSError as fault:
            why = f"{path}, which keeps what was sent, cannot be written: {fault.strerror}"
            raise UserError(f"{why}; XDG_STATE_HOME names the folder that it lies in") from fault
        sent.turn_to(models.get("collection"))
        if len(sent):
            print_note(f"left out where unchanged: {len(sent)} files sent before, listed in {path}")
        print_note(f"watching {', '.join(map(str, folders))}: Ctrl-C ends it")
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # the way service managers end it is Ctrl-C's
        return watch_until_interrupted(
            FolderWatch(client, folders, sent, still_for_s, understood(said, lambda: models), albums)
        )
