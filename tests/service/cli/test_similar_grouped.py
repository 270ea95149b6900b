"""Shots of one moment, of which one is asked with: the others are found, as one result."""

import json
from contextlib import closing
from pathlib import Path

from index.catalog.catalog import Catalog
from tests.support.cli_runner import Regard
from tests.support.library import two_coloured
from tests.support.running_server import running_server


def test_the_near_duplicates_of_a_picture_that_is_stored_are_found(regard: Regard, tmp_path: Path) -> None:
    shots = tmp_path / "shots"
    shots.mkdir()
    for name, colour, width in (
        ("shot1", "red", 320),
        ("shot2", "red", 324),
        ("shot3", "red", 328),
        ("other", "blue", 320),
    ):
        two_coloured(colour, colour, width, 240).save(shots / f"{name}.png")
    with running_server(tmp_path / "data") as url:
        assert regard("ingest", shots, "--url", url)[0] == 0
        listed = json.loads(regard("list", "--url", url, "--json")[1])["images"]
        hashes = {one["image_id"]: (bytes(8) if "shot" in one["filename"] else b"\xff" * 8) for one in listed}
        with closing(Catalog(tmp_path / "data" / "catalog.sqlite")) as catalog:
            catalog.hashes.add(hashes)
        _, said, _ = regard("similar", shots / "shot1.png", "--url", url, "--group-near-duplicates", "--json")
    first, *others = json.loads(said)["results"]
    found = {first["filename"], *(one["filename"] for one in first["near_duplicates"])}
    assert found == {"shot2.png", "shot3.png"}
    assert [one["filename"] for one in others] == ["other.png"]
