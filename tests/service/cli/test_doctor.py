"""`regard doctor` on keys, the disk and a catalog of an earlier release, none of which it changes."""

import json
import shutil
import sqlite3
import tarfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from index.catalog import Catalog
from service.cli.commands import doctor
from service.settings import Settings
from tests.support.cli_runner import Regard
from tests.support.project_files import ROOT


@pytest.mark.parametrize(
    ("host", "insecure", "words"),
    [
        ("127.0.0.1", False, "this machine alone"),
        ("0.0.0.0", True, "everybody who reaches 0.0.0.0 port 8000 may read"),
        ("0.0.0.0", False, "will not listen on 0.0.0.0"),
    ],
)
def test_doctor_says_who_is_answered_without_keys(tmp_path: Path, host: str, insecure: bool, words: str) -> None:
    assert words in doctor.CHECKS["keys"](Settings(data_dir=tmp_path, host=host, insecure=insecure))


def test_doctor_leaves_a_catalog_of_an_earlier_release_as_it_is(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tarfile.open(ROOT / "tests" / "data" / "release-0.1.tar.xz") as archive:
        archive.extractall(tmp_path, filter="data")
    data = tmp_path / "data"
    with closing(sqlite3.connect(data / "catalog.sqlite")) as database:
        database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    before = (data / "catalog.sqlite").read_bytes()
    checks = {name: doctor.CHECKS[name] for name in ("catalog", "weights", "data", "regions", "keys")}
    monkeypatch.setattr(doctor, "CHECKS", checks)
    status, said, _ = regard("doctor", "--verify", "--data-dir", data, "--json")
    found = {one["part"]: one["found"] for one in json.loads(said)["checks"]}
    assert (data / "catalog.sqlite").read_bytes() == before
    assert found["catalog"].startswith(f"schema 1, {doctor.BROUGHT_UP}, ")
    assert (found["regions"], status) == (f"looked at once the catalog is {doctor.BROUGHT_UP}", 1)
    assert found["stored"] == f"compared once the catalog is {doctor.BROUGHT_UP}"


def test_doctor_says_that_uploads_are_refused_where_the_disk_has_less_than_is_kept_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    check = doctor.CHECKS["data"]
    assert "can be written" in check(Settings(data_dir=tmp_path, disk_reserve_bytes=0))
    found = doctor.run_check("data", check, Settings(data_dir=tmp_path, disk_reserve_bytes=2 * free))
    assert not found["ok"]
    assert "REGARD_DISK_RESERVE_BYTES" in found["found"]
    assert "uploads are refused" in found["found"]


def test_doctor_goes_on_where_another_process_keeps_the_catalog(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Catalog(tmp_path / "catalog.sqlite").close()
    monkeypatch.setattr(doctor, "CHECKS", {name: doctor.CHECKS[name] for name in ("catalog", "keys")})
    with closing(sqlite3.connect(tmp_path / "catalog.sqlite")) as database, monkeypatch.context() as hasty:
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("UPDATE counters SET value = value")
        hasty.setattr(sqlite3, "connect", partial(sqlite3.connect, timeout=0))
        status, said, _ = regard("doctor", "--verify", "--data-dir", tmp_path, "--json")
    catalog, keys, stored = json.loads(said)["checks"]
    assert (status, keys["ok"]) == (1, True)
    assert catalog["found"] == stored["found"]
    assert catalog["found"].startswith("database is locked: another process keeps the catalog")
