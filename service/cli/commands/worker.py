"""`regard worker`."""

from typing import Annotated

import typer

from service.cli.logs import write_log
from service.cli.options import EndWithStdin
from service.cli.settings_options import with_settings
from service.model_names import check_detector, check_models
from service.serve import run_worker
from service.settings import Settings
from service.worker.geocoding_table import check_places

OfCollection = Annotated[str | None, typer.Option("--collection", hidden=True)]


@with_settings("role", "host", "port")
def worker(settings: Settings, end_with_stdin: EndWithStdin = False, collection: OfCollection = None) -> None:
    """Run the worker alone, as `serve --role worker` does."""
    settings = settings.model_copy(update={"role": "worker"})
    write_log(settings)
    check_models(settings.models)
    check_detector(settings.detector)
    check_places(settings)
    run_worker(settings, end_with_stdin, collection)
