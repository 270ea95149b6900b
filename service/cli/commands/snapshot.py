"""`regard snapshot`."""

from pathlib import Path
from typing import Annotated

import typer

from service.cli.options import AsJson, DataFolder
from service.cli.settings_options import read_settings
from service.cli.terminal.output import print_json, show_progress, visible


def snapshot(
    out: Annotated[Path, typer.Argument(help="A new folder, or an archive whose name ends with .tar.")],
    data_dir: DataFolder = None,
    as_json: AsJson = False,
) -> None:
    """Copy a data directory as it is now.

    Also while a service runs on it. `regard restore` turns the copy into a data directory.

    It contains pictures, captions, tags and regions, but no API keys, and no views, which can be rebuilt.
    """
    if str(out) == "-":
        raise typer.BadParameter("a snapshot is not written to standard output: name a folder, or an archive (.tar)")
    settings = read_settings({} if data_dir is None else {"data_dir": data_dir})
    from service.storage.snapshots.snapshot import take_snapshot

    with show_progress() as progress:
        task = progress.add_task("copying pictures", None)
        content = take_snapshot(settings.data_dir, out, each=lambda: task.advance(1))
    if as_json:
        print_json(vars(content))
        return
    deleted = f", and {content.deleted} deleted ones that can still be restored" * bool(content.deleted)
    missing = f"; {content.missing} have no original" * bool(content.missing)
    print(f"{visible(str(out))} holds {content.pictures} pictures{deleted}{missing}")
