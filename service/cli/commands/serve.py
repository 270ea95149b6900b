"""Run the service: the web side, the worker, or both."""

import logging
import os
import sys
import threading
from pathlib import Path
from typing import Annotated

import typer

from service.cli.settings_options import settings_flags
from service.settings import Settings

app = typer.Typer()

Photos = Annotated[
    Path | None, typer.Option("--photos", exists=True, file_okay=False, help="Take in the pictures below this folder.")
]
WithStdin = Annotated[bool, typer.Option("--end-with-stdin", hidden=True)]


@app.command()
@settings_flags()
def serve(settings: Settings, photos: Photos = None) -> None:
    """Serve searches and take pictures in. Every setting is also an environment variable, named in brackets."""
    write_log(settings)
    if settings.role == "worker":
        if photos is not None:
            raise typer.BadParameter("--photos needs the web side: --role all or --role api")
        _run_worker(settings, end_with_stdin=False)
        return
    from service.serve import run_api  # noqa: PLC0415 - PyTorch and all models come with it

    def take_in(url: str) -> None:
        assert photos is not None
        threading.current_thread().name = "photos"
        _take_in(url, photos)

    run_api(settings, with_worker=settings.role == "all", once_listening=None if photos is None else take_in)


@app.command()
@settings_flags("role", "host", "port")
def worker(settings: Settings, end_with_stdin: WithStdin = False) -> None:
    """Run the worker alone, as `serve --role worker` does."""
    settings = settings.model_copy(update={"role": "worker"})
    write_log(settings)
    _run_worker(settings, end_with_stdin)


def _run_worker(settings: Settings, end_with_stdin: bool) -> None:
    from service.serve import run_worker  # noqa: PLC0415

    run_worker(settings, end_with_stdin)


def _take_in(url: str, photos: Path) -> None:
    import time  # noqa: PLC0415

    from service.cli.commands.ingest import report, send  # noqa: PLC0415
    from service.client import Client, Refused, Unreachable  # noqa: PLC0415

    with Client(url) as client:
        while not client.is_alive():
            time.sleep(0.1)
    try:
        report(send(url, [photos]))
        print(f"search at {url}", flush=True)
    except (Refused, Unreachable, OSError) as fault:
        logging.getLogger(__name__).error("%s was not taken in: %s", photos, fault)


def write_log(settings: Settings) -> None:
    """Log lines on standard error, each with its time, process and level."""
    form = f"%(asctime)s {settings.role} {os.getpid()} %(levelname)s %(name)s: %(message)s"
    logging.basicConfig(level=settings.log_level.upper(), format=form, stream=sys.stderr)
    for name in ("httpx", "httpcore", "faiss.loader", "uvicorn"):  # their INFO is news of no interest here
        logging.getLogger(name).setLevel(logging.WARNING)
