"""Places of photographs: named where that is asked for, left alone otherwise."""

import math
from fractions import Fraction
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL.TiffImagePlugin import IFDRational

from index.records import PictureChange
from service.errors import Misconfigured
from service.media.decode_pool import DecodePool
from service.settings import Settings
from service.worker.geocoding_table import check_places
from service.worker.reverse_geocoding import EARTH_RADIUS_KM, FARTHEST_KM, Places
from tests.support.cli_runner import Regard
from tests.support.pictures import encoded
from tests.support.worker_store import Store, noise

TOWNS = [
    {"city": "Here", "state": "Middle", "country_code": "AA", "latitude": 0.0, "longitude": 0.0},
    {"city": "South", "country_code": "BB", "latitude": 69.6, "longitude": 20.0},
    {"city": "East", "country_code": "BB", "latitude": 70.0, "longitude": 21.0},
    {"city": "Dateline", "country_code": "CC", "latitude": 10.0, "longitude": -179.9},
]
PLACES = Places(TOWNS, {"AA": "Aland", "BB": "Beland"})
OSLO = (59.9139, 10.7522)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path)


def taken_at(coordinates: tuple[float, float], seed: int = 1) -> bytes:
    """A JPEG whose EXIF says so."""
    exif = PIL.Image.Exif()
    latitude, longitude = coordinates
    gps = exif.get_ifd(0x8825)
    gps[1], gps[3] = "S" if latitude < 0 else "N", "W" if longitude < 0 else "E"
    gps[2], gps[4] = _sexagesimal(abs(latitude)), _sexagesimal(abs(longitude))
    return encoded(noise(seed), "JPEG", exif=exif)


def _sexagesimal(degrees: float) -> tuple[float, float, Fraction]:
    minutes = degrees % 1 * 60
    return float(int(degrees)), float(int(minutes)), Fraction(round(minutes % 1 * 60 * 1000), 1000)


@pytest.mark.parametrize("coordinates", [OSLO, (-33.8688, 151.2093), (40.5, -74.25), (-0.5, -0.25)])
def test_coordinates_are_read_where_they_are_asked_for(tmp_path: Path, coordinates: tuple[float, float]) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(taken_at(coordinates))
    with DecodePool.from_settings(Settings(), workers=1) as pool:
        assert pool.decode(path).coordinates is None
        assert pool.decode(path, with_coordinates=True).coordinates == pytest.approx(coordinates, abs=1e-5)


@pytest.mark.parametrize(
    "gps",
    [
        {},
        {2: (59.0, 54.0, 50.0)},
        {2: (159.0, 54.0, 50.0), 4: (10.0, 45.0, 8.0)},
        {2: (0.0, 0.0, 0.0), 4: (0.0, 0.0, 0.0)},
        {2: (59.0, 54.0), 4: (10.0, 45.0)},
        {2: (IFDRational(59, 0), 0.0, 0.0), 4: (10.0, 45.0, 8.0)},
    ],
)
def test_coordinates_that_make_no_sense_are_none(tmp_path: Path, gps: dict[int, object]) -> None:
    exif = PIL.Image.Exif()
    exif.get_ifd(0x8825).update(gps)
    path = tmp_path / "a.jpg"
    path.write_bytes(encoded(noise(1), "JPEG", exif=exif))
    with DecodePool.from_settings(Settings(), workers=1) as pool:
        assert pool.decode(path, with_coordinates=True).coordinates is None


def test_the_nearest_town_is_that_on_the_globe() -> None:
    assert PLACES.tags_of((0.1, 0.1)) == {"place": "Here", "region": "Middle", "country": "Aland"}
    # Up there, 0.4 degrees to the south are farther than one to the east.
    assert PLACES.tags_of((70.0, 20.0)) == {"place": "East", "country": "Beland"}
    assert PLACES.tags_of((10.0, 179.9)) == {"place": "Dateline", "country": "CC"}
    assert PLACES.tags_of((45.0, 45.0)) == PLACES.tags_of(None) == {}


@given(st.floats(-90, 90), st.floats(-180, 180))
def test_a_town_is_named_exactly_where_it_is_near(latitude: float, longitude: float) -> None:
    distances = [
        _great_circle_km((latitude, longitude), (float(str(town["latitude"])), float(str(town["longitude"]))))
        for town in TOWNS
    ]
    if abs(min(distances) - FARTHEST_KM) > 0.01:
        assert bool(PLACES.tags_of((latitude, longitude))) == (min(distances) < FARTHEST_KM)


def _great_circle_km(one: tuple[float, float], other: tuple[float, float]) -> float:
    """The distance by the haversine formula."""
    (lat, lon), (lat2, lon2) = map(math.radians, one), map(math.radians, other)
    half = math.sin((lat2 - lat) / 2) ** 2 + math.cos(lat) * math.cos(lat2) * math.sin((lon2 - lon) / 2) ** 2
    return 2 * EARTH_RADIUS_KM * math.asin(min(1.0, math.sqrt(half)))


def test_the_installed_table_knows_towns_of_the_world() -> None:
    places = Places.installed()
    assert places.tags_of(OSLO) == {"place": "Oslo", "region": "Oslo", "country": "Norway"}
    assert places.tags_of((-33.8688, 151.2093))["country"] == "Australia"
    assert places.tags_of((0.0, -30.0)) == {}  # in the Atlantic


def test_photographs_are_tagged_with_their_place_where_that_is_asked_for(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    silent = store.accept(taken_at(OSLO, 1), "jpg")
    store.drain()
    assert store.image(silent).tags == {}
    told = store.accept(taken_at(OSLO, 2), "jpg")
    placed = store.accept(taken_at(OSLO, 3), "jpg")
    store.catalog.change(placed, PictureChange(tags={"place": "grandmother's"}))
    nowhere = store.accept(encoded(noise(4), "JPEG"), "jpg")
    settings = store.settings().model_copy(update={"with_places": True})
    monkeypatch.setattr(store, "settings", lambda batch=3: settings)
    store.drain()
    assert store.image(told).tags == {"place": "Oslo", "region": "Oslo", "country": "Norway"}
    assert store.image(placed).tags["place"] == "grandmother's"  # what was said counts more
    assert store.image(nowhere).tags == {}


def test_without_a_table_it_is_said_how_to_get_one(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    check_places(Settings())
    with pytest.raises(Misconfigured, match="pip install reverse-geocode"):
        check_places(Settings(with_places=True))
    status, _, noted = regard("serve", "--with-places", "--data-dir", tmp_path)
    assert (status, noted) == (1, "regard: --with-places needs the extra `places`: pip install reverse-geocode\n")
