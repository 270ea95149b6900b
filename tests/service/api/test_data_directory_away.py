"""While the data directory is away, no request is answered as if it were empty, and nothing is taken in."""

import pytest

from service.api.schemas.resources import ImagesAnswer, IngestAnswer
from tests.support.library import two_coloured
from tests.support.web_app import Api, checked, png, problem

READ_FROM_DATA = {"regard_disk_free_bytes", "regard_pictures_ready", "regard_pictures_queued", "regard_view_pictures"}


def gauges(api: Api) -> set[str]:
    """The names of the gauges that metrics have now, of which one needs no data directory."""
    answer = api.get("/metrics")
    found = {line.split()[2] for line in answer.text.splitlines() if line.startswith("# TYPE ")}
    assert (answer.status_code, "regard_queue_cost" in found) == (200, True)
    return found


@pytest.mark.parametrize("mount_point", [False, True])
def test_whatever_is_asked_says_that_the_data_directory_is_away(
    api: Api, mount_point: bool, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files = {"images": ("a.png", png(two_coloured("red", "red")))}
    checked(api.request("POST", "/ingest", files=files), 202, IngestAnswer)
    place = api.library.folder
    monkeypatch.setattr(api.services.models, "refresh", lambda: None)  # which tries again and again in the background
    place.rename(away := place.with_name(f"{place.name} away"))
    if mount_point:
        place.mkdir()
    more = {"images": ("b.png", png(two_coloured("blue", "blue")))}
    asked_with = {"image": ("b.png", more["images"][1])}
    for answer in (
        api.get("/images"),
        api.get("/readyz"),
        api.get("/tags"),
        api.get(f"/images/{'0' * 32}"),
        api.text("red"),
        api.request("POST", "/ingest", files=more),
        api.request("POST", "/search/image", files=asked_with),
    ):
        refused = problem(answer, 503, "not-ready")
        assert "The data directory of this service is away" in refused["detail"], answer.request.url
        assert int(answer.headers["retry-after"]) >= 1
    assert api.get("/livez").status_code == 200
    for _ in range(2):  # metrics are asked for most while something is amiss
        assert gauges(api) & READ_FROM_DATA <= ({"regard_disk_free_bytes"} if mount_point else set())
    assert caplog.text.count("metrics lack pictures_ready, pictures_queued") == 1
    assert not place.exists() or list(place.iterdir()) == []
    if mount_point:
        place.rmdir()
    away.rename(place)
    assert len(checked(api.get("/images"), 200, ImagesAnswer)["images"]) == 1
    assert gauges(api) >= READ_FROM_DATA
    checked(api.request("POST", "/ingest", files=more), 202, IngestAnswer)
