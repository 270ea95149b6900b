"""`regard serve`: the web process, the worker, or both."""

import logging
import threading
import time
from pathlib import Path
from typing import Annotated

import typer
from pydantic import SecretStr

from service.cli.ingesting.summary import print_summary
from service.cli.logs import write_log
from service.cli.options import Albums, EndWithStdin
from service.cli.settings_options import with_settings
from service.errors import UserError
from service.model_names import check_detector, check_models
from service.processes.supervisor import end_with_stdin
from service.serve import run_api, run_web_process, run_worker
from service.settings import Settings
from service.worker.geocoding_table import check_places

Photos = Annotated[
    Path | None,
    typer.Option("--photos", exists=True, file_okay=False, help="Take in the pictures below this folder, each once."),
]


Beside = Annotated[bool, typer.Option("--beside", hidden=True)]


@with_settings()
def serve(
    settings: Settings,
    photos: Photos = None,
    albums: Albums = True,
    beside: Beside = False,
    watch_stdin: EndWithStdin = False,
) -> None:
    """Serve searches and take in pictures. Every setting is also an environment variable, named in brackets."""
    if watch_stdin:
        end_with_stdin()
    write_log(settings)
    if settings.role == "worker" and photos is not None:
        raise typer.BadParameter("--photos needs the web process: --role all or --role api")
    check_models(settings.models)
    check_detector(settings.detector)
    check_places(settings)
    if settings.role == "worker":
        run_worker(settings, end_with_stdin=False)
        return
    if beside:
        run_web_process(settings)
        return

    def ingest_photos(url: str, api_key: SecretStr) -> None:
        assert photos is not None
        threading.current_thread().name = "photos"
        _ingest_photos(url, photos, api_key, albums)

    run_api(settings, with_worker=settings.role == "all", once_listening=None if photos is None else ingest_photos)


def _ingest_photos(url: str, photos: Path, api_key: SecretStr, albums: bool) -> None:
    """Send the pictures of a folder that it was not sent before to the server, once it answers."""
    from regard_client import Client
    from service.cli.ingesting.sending_once import send_folder_once

    try:
        with Client(url, api_key.get_secret_value()) as client:
            while not client.is_alive():
                time.sleep(0.1)
        print_summary(send_folder_once(url, photos, api_key, albums))
        print(f"search at {url}", flush=True)
    except (UserError, OSError) as fault:
        logging.getLogger(__name__).error("%s was not taken in: %s", photos, fault)
