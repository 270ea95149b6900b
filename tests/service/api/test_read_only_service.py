"""A data directory that may not be written is searched and shown; whatever would change it is refused in words."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from index.catalog.database import connection, faults
from service.api.schemas.resources import ImagesAnswer, ReadyAnswer
from service.api.schemas.results import ImageAnswer, TextAnswer
from tests.support.library import Library, two_coloured
from tests.support.pictures import encoded
from tests.support.web_app import Api, checked, png, problem


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    made = Library(tmp_path)
    api = Api(made)
    content = encoded(two_coloured("red", "blue"), "PNG")
    api.request("POST", "/ingest", files={"images": ("a.png", content)})
    made.work(api.services.storage.originals, api.services.pool)
    api.close()
    yield made
    made.close()


@pytest.fixture
def api(library: Library, monkeypatch: pytest.MonkeyPatch) -> Iterator[Api]:
    monkeypatch.setattr(connection, "is_writable", lambda path: False)
    api = Api(library)
    yield api
    api.close()


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Size and time of change of every file, but for SQLite's own beside the catalog."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.endswith(("-shm", "-wal")))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in files}


def test_it_is_searched_and_shown_and_stays_as_it_is(api: Api) -> None:
    before = tree(api.library.folder)
    (hit,) = checked(api.text("red", explain=True), 200, TextAnswer)["results"]
    for path in ("", "/thumbnail", "/regions"):
        assert api.get(f"{hit['url']}{path}").status_code == 200
    asked = {"image_id": (None, hit["image_id"])}, {"image": ("a.png", png(two_coloured("red", "red")))}
    for form in asked:
        answer = api.request("POST", "/search/image", files={**form, "target": (None, "images")})
        checked(answer, 200, ImageAnswer)
    checked(api.get("/images"), 200, ImagesAnswer)
    ready = checked(api.get("/readyz"), 200, ReadyAnswer)
    assert "can only be read" in ready["checks"]["worker"]
    assert api.get("/session").json() == {"required": False, "permission": "read", "key_id": None, "name": None}
    assert tree(api.library.folder) == before


def test_whatever_would_change_it_is_refused_in_words(api: Api) -> None:
    before = tree(api.library.folder)
    image_id = api.get("/images").json()["images"][0]["image_id"]
    content = png(two_coloured("red", "red"))
    for method, path, options in (
        ("POST", "/ingest", {"files": {"images": ("a.png", content)}}),
        ("DELETE", f"/images/{image_id}", {}),
        ("POST", f"/images/{image_id}/restore", {}),
        ("PATCH", f"/images/{image_id}", {"json": {"captions": ["x"]}}),
    ):
        refused = problem(api.request(method, path, **options), 409, "read-only")
        assert "not be written" in refused["detail"], path
    assert tree(api.library.folder) == before


def test_a_file_that_was_never_made_is_said_in_words(api: Api) -> None:
    (image,) = api.get("/images").json()["images"]
    shown = api.services.storage.originals.find_stripped(image["image_id"], "png")
    assert shown is not None
    shown.unlink()
    assert "file to show" in problem(api.get(image["url"]), 409, "read-only")["detail"]
    api.services.storage.originals.thumbnail(image["image_id"]).unlink()
    assert "thumbnail" in problem(api.get(image["thumbnail_url"]), 409, "read-only")["detail"]


def test_damage_met_by_a_request_is_said_in_words(library: Library, monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(library)

    def damaged(*_: object) -> None:
        raise faults.DamagedCatalog(library.folder / "catalog.sqlite", "malformed")

    monkeypatch.setattr(api.services.storage.catalog, "list_images", damaged)
    assert "damaged" in problem(api.get("/images"), 503, "not-ready")["detail"]
    api.close()
