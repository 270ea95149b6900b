"""`regard doctor` on keys, the disk and a catalog of an earlier release, none of which it changes."""

import json
import re
import shutil
import sqlite3
import tarfile
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from service.cli.commands import doctor
from service.errors import Misconfigured
from service.serve import listening_socket, run_api
from service.settings import Settings
from service.storage.data_dir_lock import lock_data_dir
from tests.support.catalogs import make_ready, picture
from tests.support.cli_runner import Regard
from tests.support.pictures import encoded
from tests.support.project_files import ROOT
from tests.support.without_privilege import output_without_privilege
from tests.support.worker_store import Store, noise

FORBIDDEN_ONE_BY_ONE = """
import json, pathlib, sys
from service.cli.commands.doctor import CHECKS, run_check
from service.settings import Settings
data = pathlib.Path(sys.argv[1])
found = {}
for name in sys.argv[2:]:
    path = data / name
    mode = path.stat().st_mode
    path.chmod(0o500 if path.is_dir() else 0o400)
    found[name] = run_check("data", CHECKS["data"], Settings(data_dir=data, disk_reserve_bytes=0))
    path.chmod(mode)
print(json.dumps(found))
"""


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
    assert found["catalog"].startswith(f"schema 1, {doctor.UPGRADED}, ")
    assert (found["regions"], status) == (f"checked once the catalog is {doctor.UPGRADED}", 1)
    assert found["stored"] == f"not compared yet: {doctor.OLD_CATALOG}; ask again then"


def test_doctor_says_that_uploads_are_refused_where_the_disk_has_less_than_is_kept_free(tmp_path: Path) -> None:
    free = shutil.disk_usage(tmp_path).free
    check = doctor.CHECKS["data"]
    assert "is writable" in check(Settings(data_dir=tmp_path, disk_reserve_bytes=0))
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


def test_doctor_looks_at_every_part_that_a_worker_writes(tmp_path: Path) -> None:
    store = Store(tmp_path)
    image_id = store.accept(encoded(noise(1), "PNG"))
    store.drain()
    inside = ["incoming", "thumbnails", "stripped", "regions/header.json", "regions/records.bin", "views"]
    view = next((tmp_path / "views").iterdir()).relative_to(tmp_path)
    parts = ["catalog.sqlite", "catalog.sqlite-wal", f"originals/{image_id[:2]}", *inside, f"{view}/manifest.json"]
    found = json.loads(output_without_privilege("-c", FORBIDDEN_ONE_BY_ONE, str(tmp_path), *parts))
    store.catalog.close()
    assert [one["ok"] for one in found.values()] == [False] * len(parts)
    for part in parts:
        assert found[part]["found"].startswith(f"{part} in the data directory cannot be written")
    assert doctor.run_check("data", doctor.CHECKS["data"], Settings(data_dir=tmp_path, disk_reserve_bytes=0))["ok"]


@pytest.mark.parametrize(("header", "is_whole"), [(None, False), ("{", False), ('{"format": 1, "layout": {}}', True)])
def test_doctor_reads_what_the_records_of_regions_are(tmp_path: Path, header: str | None, is_whole: bool) -> None:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a")], now=1.0)
        make_ready(catalog, "a")
    if header is not None:
        (tmp_path / "regions").mkdir()
        (tmp_path / "regions" / "header.json").write_text(header)
    found = doctor.run_check("regions", doctor.CHECKS["regions"], Settings(data_dir=tmp_path))
    assert found["ok"] is is_whole, found
    assert is_whole or f"{tmp_path / 'regions'} cannot be read" in found["found"]


@pytest.mark.parametrize("name", ["incoming", "thumbnails", "views", "originals", "writer.lock", "catalog.sqlite"])
def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path, name: str) -> None:
    path, is_file = tmp_path / name, "." in name
    path.mkdir() if is_file else path.write_text("here")
    found = doctor.run_check("data", doctor.CHECKS["data"], Settings(data_dir=tmp_path, disk_reserve_bytes=0))
    words = f"{path} is {'a folder' if is_file else 'a file'}, and {'a file' if is_file else 'a folder'} belongs there"
    assert not found["ok"]
    assert found["found"].startswith(f"{words}: move it away; ")
    assert ("backup" in found["found"]) is (name in ("originals", "catalog.sqlite"))
    with listening_socket("127.0.0.1", 0) as taken:
        taken.listen()  # so that nothing is served where this is not refused
        with pytest.raises(Misconfigured, match=re.escape(words)):
            run_api(Settings(data_dir=tmp_path, port=taken.getsockname()[1]), with_worker=True)
    with pytest.raises(Misconfigured, match=re.escape(words)):
        lock_data_dir(tmp_path)


def test_a_damaged_description_of_the_stored_regions_is_named(tmp_path: Path) -> None:
    with closing(Catalog(tmp_path / "catalog.sqlite")) as catalog:
        catalog.take_in([picture("a")], now=1.0)
        make_ready(catalog, "a")
    (tmp_path / "regions").mkdir()
    (tmp_path / "regions" / "header.json").write_text('{"format": 1, "layout": {}}')
    (tmp_path / "regions" / "config.json").write_text("{}")
    found = doctor.run_check("regions", doctor.CHECKS["regions"], Settings(data_dir=tmp_path))
    assert not found["ok"]
    assert f"{tmp_path / 'regions' / 'config.json'}: 'digest' is missing" in found["found"]
    assert "restore the file from a backup" in found["found"]
