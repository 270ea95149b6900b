"""The file of keys: for its owner alone, replaced as a whole, readable or refused in words."""

import errno
import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from service.auth.api_keys import ApiKey, create_key
from service.auth.key_file import BadKeyFile, change_keys, read_keys
from service.auth.permissions import Permission
from service.errors import UserError
from tests.support.power_cut import Disk
from tests.support.project_files import ROOT

STORED = create_key("phone", Permission.READ, 100.0, expires_at=200.0)[1]


def add(path: Path, key: ApiKey = STORED) -> None:
    change_keys(path, lambda keys: [*keys, key])


def test_keys_are_read_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "new" / "keys.json"
    assert read_keys(path) == []
    add(path)
    other = create_key("other", Permission.ADMIN, 300.0)[1]
    add(path, other)
    assert read_keys(path) == [STORED, other]


def test_a_user_who_may_not_change_the_keys_is_told_who_may(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(path: Path, *_: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refused)
    with pytest.raises(UserError, match=r"keys\.lock: Permission denied; run this as the user whom the data directory"):
        add(tmp_path / "keys.json")


def test_a_key_made_or_revoked_stays_so_after_a_power_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    path = disk.folder / "data" / "keys.json"
    add(path)
    assert read_keys(disk.left(tmp_path / "made") / "data" / "keys.json") == [STORED]
    change_keys(path, lambda keys: [])
    left = disk.left(tmp_path / "revoked") / "data" / "keys.json"
    assert left.is_file()
    assert read_keys(left) == []


def test_nobody_else_may_read_it_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    before = os.umask(0)
    try:
        add(path)
        add(path, create_key("other", Permission.READ, 0.0)[1])
    finally:
        os.umask(before)
    for file in tmp_path.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.name
    assert not list(tmp_path.glob("*.tmp"))


def test_a_change_that_fails_changes_nothing_and_a_torn_temporary_file_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add(path)
    before = path.read_bytes()
    with pytest.raises(ZeroDivisionError):
        change_keys(path, lambda keys: keys[: 1 // 0])
    assert path.read_bytes() == before
    torn = tmp_path / "keys.json.0123abcd.tmp"
    torn.write_bytes(b"half a fi")
    add(path, create_key("other", Permission.READ, 0.0)[1])
    assert len(read_keys(path)) == 2
    assert not torn.exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"nonsense",
        b"{}",
        b"[]",
        b'{"format": 1, "keys": [{"key_id": "a"}]}',
        b'{"format": 2, "keys": []}',
        b"\xff",
    ],
)
def test_a_damaged_file_is_refused_in_words_and_left_as_it_is(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "keys.json"
    path.write_bytes(content)
    with pytest.raises(BadKeyFile, match=r"keys\.json") as refused:
        read_keys(path)
    assert "(:" not in str(refused.value)
    with pytest.raises(BadKeyFile):
        add(path)
    assert path.read_bytes() == content


def test_what_is_wrong_is_said_without_showing_digests(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    add(path)
    document = json.loads(path.read_text())
    document["keys"][0]["permission"] = "everything"
    path.write_text(json.dumps(document))
    with pytest.raises(BadKeyFile) as refused:
        read_keys(path)
    assert STORED.digest not in str(refused.value)


ADD_ONE = """
import sys
from pathlib import Path
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
for n in range(10):
    key = create_key(f"{sys.argv[2]}-{n}", Permission.READ, 0.0)[1]
    change_keys(Path(sys.argv[1]), lambda keys: [*keys, key])
"""


def test_programs_that_change_it_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys.json"
    programs = [
        subprocess.Popen([sys.executable, "-c", ADD_ONE, str(path), str(number)], cwd=ROOT) for number in range(4)
    ]
    assert [program.wait() for program in programs] == [0] * 4
    assert len({key.name for key in read_keys(path)}) == 40
