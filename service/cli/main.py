"""The program `regard`."""

import sys

import typer

from index.lock import Locked
from service.cli.commands import (
    bench,
    calibrate,
    convert,
    doctor,
    evaluate,
    explain,
    ingest,
    search,
    serve,
    train,
    words,
)
from service.client import Refused, Unreachable

app = typer.Typer(
    name="regard",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, which is faster and can be piped
    help="Search your own pictures by what is in them, and see which region answered which word.",
)
for part in (
    serve,
    ingest,
    search,
    explain,
    doctor,
    evaluate,
    calibrate,
    train,
    convert,
    words,
    bench,
):
    app.registered_commands += part.app.registered_commands


def main() -> None:
    """Run a command; what a user can put right ends in one line, anything else in a traceback."""
    try:
        app()
    except (Refused, Unreachable, Locked, ValueError, OSError) as fault:
        lines = str(fault).splitlines() or [type(fault).__name__]
        print(f"regard: {lines[0]}", file=sys.stderr)
        raise SystemExit(1) from None


if __name__ == "__main__":
    main()
