"""The program `regard`.

Commands import heavy modules (PyTorch, FAISS, the web framework) only after checking their arguments.
"""

import os
import signal
from collections.abc import Callable
from typing import Annotated, Any

import typer
from pydantic import ValidationError
from typer.core import TyperCommand, TyperGroup

from index import fault_points
from service import VERSION
from service.cli.commands.bench import bench
from service.cli.commands.calibrate import calibrate
from service.cli.commands.calibrate_ensemble import calibrate_ensemble
from service.cli.commands.chaos import chaos
from service.cli.commands.cluster import cluster
from service.cli.commands.compact import compact
from service.cli.commands.convert import convert
from service.cli.commands.delete import delete
from service.cli.commands.detect import detect
from service.cli.commands.doctor import doctor
from service.cli.commands.edit import edit
from service.cli.commands.evaluate import evaluate
from service.cli.commands.explain import explain
from service.cli.commands.export import export
from service.cli.commands.extract import extract
from service.cli.commands.failures import failures
from service.cli.commands.info import info
from service.cli.commands.ingest import ingest
from service.cli.commands.ingest_features import ingest_features
from service.cli.commands.jobs import jobs
from service.cli.commands.keys import keys
from service.cli.commands.list_pictures import list_pictures
from service.cli.commands.models import models
from service.cli.commands.restore import restore
from service.cli.commands.score import score
from service.cli.commands.search import SEARCH_EPILOG, search
from service.cli.commands.serve import serve
from service.cli.commands.similar import similar
from service.cli.commands.snapshot import snapshot
from service.cli.commands.tags import tags
from service.cli.commands.train import TRAIN_EPILOG, TrainCommand, train
from service.cli.commands.words import words
from service.cli.commands.worker import worker
from service.cli.terminal.output import print_note, replace_unencodable
from service.cli.user_errors import is_user_error, one_line
from service.errors import user_input
from service.garbage_collection import collect_nothing_at_exit
from service.validation_messages import plain_words


class PlainGroup(TyperGroup):
    """A group of commands whose messages about invalid values are worded like those of the service."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except typer.BadParameter as fault:
            if isinstance(fault.__cause__, ValidationError):
                fault.message = plain_words(fault.message)
            raise


app = typer.Typer(
    name="regard",
    cls=PlainGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help is faster and can be piped
    help="Search your own pictures by what is in them, and see which region answered which word.",
)
COMMANDS = (
    *(serve, worker, ingest, ingest_features, search, similar, models, detect, explain, doctor),
    *(list_pictures, info, tags, failures, jobs, delete, restore, edit, export, snapshot, compact, chaos),
    *(extract, evaluate, calibrate, calibrate_ensemble, train, convert, score, words, bench),
)
NAMES: dict[Callable[..., None], str] = {list_pictures: "list"}  # commands not named like their function
CLASSES: dict[Callable[..., None], type[TyperCommand]] = {train: TrainCommand}
EPILOGS: dict[Callable[..., None], str] = {search: SEARCH_EPILOG, train: TRAIN_EPILOG}


def print_version(wanted: bool) -> None:
    """Print the version and exit if `wanted`."""
    if wanted:
        print(f"regard {VERSION}")
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", callback=print_version, is_eager=True, help="Print the version and exit.")
]


@app.callback()
def options(version: Version = False) -> None:
    """The options before the name of a command."""


for command in COMMANDS:
    app.command(NAMES.get(command), cls=CLASSES.get(command), epilog=EPILOGS.get(command))(command)
app.add_typer(keys)
app.add_typer(cluster)


def arm_fault_point() -> None:
    """Arm the fault point named in the environment, if any, at which this process then dies; for tests of crashes."""
    if (place := os.environ.get(fault_points.VARIABLE)) is not None:
        with user_input():
            fault_points.arm(place)


def main() -> None:
    """Run a command. A user's mistake ends in one line on standard error and status 1, a bug in its traceback."""
    collect_nothing_at_exit()
    replace_unencodable()
    try:
        try:
            arm_fault_point()
            app()
        finally:
            print(end="", flush=True)
    except (SystemExit, BrokenPipeError) as end:
        if BrokenPipeError in (type(end), type(end.__context__)):  # typer turns it into a SystemExit
            os._exit(128 + signal.SIGPIPE)  # as programs end whose reader closed the pipe, without further output
        raise
    except Exception as error:
        if not is_user_error(error):
            raise
        print_note(f"regard: {one_line(error)}")
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
