"""The keys of a running service follow their file, and nothing that happens to it opens the service."""

import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from service.auth.api_keys import create_key, session_token
from service.auth.key_file import BadKeyFile, change_keys
from service.auth.key_ring import KeyRing
from service.auth.permissions import Permission
from service.errors import InvalidKey, NotReady

NOW = 1000.0


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keys.json"


def ring(path: Path) -> KeyRing:
    return KeyRing(path, clock=lambda: NOW)


def created(path: Path, permission: Permission = Permission.READ, expires_at: float | None = None) -> str:
    key, stored = create_key("one", permission, NOW, expires_at)
    change_keys(path, lambda keys: [*keys, stored])
    return key


def revoke_all(path: Path) -> None:
    change_keys(path, lambda keys: [key.revoke(NOW) for key in keys])


def test_a_key_counts_as_soon_as_it_is_made_and_until_it_is_revoked(path: Path) -> None:
    keys = ring(path)
    assert not keys.required
    one = created(path, Permission.WRITE)
    assert keys.required
    assert keys.identify(one).permission is Permission.WRITE
    assert keys.identify(session_token(one)).name == "one"
    other = created(path)
    assert keys.identify(other).permission is Permission.READ
    revoke_all(path)
    for token in (one, other, session_token(one)):
        with pytest.raises(InvalidKey, match="was revoked"):
            keys.identify(token)
    assert keys.required
    keys.close()


def test_many_changes_within_one_tick_of_the_clock_are_all_seen(path: Path) -> None:
    created(path)
    keys = ring(path)
    for _ in range(50):
        one = created(path)
        os.utime(path, ns=(0, 0))
        assert keys.identify(one)
        revoke_all(path)
        os.utime(path, ns=(0, 0))
        with pytest.raises(InvalidKey):
            keys.identify(one)
    keys.close()


def test_unknown_malformed_and_expired_keys_are_refused(path: Path) -> None:
    expired = created(path, expires_at=NOW)
    valid = created(path, expires_at=NOW + 1)
    keys = ring(path)
    assert keys.identify(valid)
    with pytest.raises(InvalidKey, match="has expired"):
        keys.identify(expired)
    unknown, _ = create_key("one", Permission.ADMIN, NOW)
    swapped = valid[:17] + unknown[17:]
    for wrong in (unknown, swapped, "", "rgd_", valid[:-1], valid + "a", valid.upper(), " " + valid, "é"):
        with pytest.raises(InvalidKey, match="no key of this service"):
            keys.identify(wrong)
    keys.close()


def test_a_lost_or_damaged_file_lets_nobody_in(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    one = created(path)
    keys = ring(path)
    content = path.read_bytes()
    path.write_bytes(b"nonsense")
    for _ in range(3):
        assert keys.required
        with pytest.raises(NotReady):
            keys.identify(one)
    assert len([record for record in caplog.records if record.levelno == logging.ERROR]) == 1
    path.unlink()
    for _ in range(3):
        assert keys.required
        with pytest.raises(NotReady):
            keys.identify(one)
    assert [record.args for record in caplog.records][1:] == [(f"{path} is gone",)]
    path.write_bytes(content)
    assert keys.identify(one)
    keys.close()


def test_a_damaged_file_that_turns_up_later_does_not_leave_the_service_open(path: Path) -> None:
    keys = ring(path)
    assert not keys.required
    path.write_bytes(b"nonsense")
    assert keys.required
    keys.close()


def test_a_file_from_which_all_keys_were_taken_opens_nothing(path: Path) -> None:
    created(path)
    keys = ring(path)
    assert keys.required
    change_keys(path, lambda _: [])
    assert keys.required
    keys.close()


def test_a_damaged_file_is_told_at_the_start(path: Path) -> None:
    path.write_bytes(b"nonsense")
    with pytest.raises(BadKeyFile):
        ring(path)


def test_a_key_of_the_process_itself_needs_no_file_and_makes_none_needed(path: Path) -> None:
    keys = ring(path)
    own = keys.create_own("photos", Permission.WRITE)
    assert not keys.required
    assert keys.identify(own).permission is Permission.WRITE
    created(path)
    assert keys.identify(own).permission is Permission.WRITE
    path.write_bytes(b"nonsense")
    assert keys.identify(own).permission is Permission.WRITE
    keys.close()


def test_a_process_beside_it_accepts_its_own_keys(path: Path, tmp_path: Path) -> None:
    first, second = ring(path), ring(tmp_path / "other.json")
    own = first.create_own("photos", Permission.WRITE)
    with pytest.raises(InvalidKey):
        second.identify(own)
    second.accept_own(first.own_keys(), first.required)
    assert second.identify(own).name == "photos"
    assert not second.required
    created(path)
    second.accept_own([], first.required)
    assert second.required
    for keys in (first, second):
        keys.close()


def test_threads_that_ask_while_the_file_changes_all_know_the_key(path: Path) -> None:
    one = created(path)
    keys = ring(path)
    is_over = threading.Event()

    def ask() -> int:
        asked = 0
        while not is_over.is_set():
            assert keys.required
            assert keys.identify(one).name == "one"
            asked += 1
        return asked

    with ThreadPoolExecutor(4) as threads:
        asking = [threads.submit(ask) for _ in range(4)]
        for _ in range(100):
            created(path)
        is_over.set()
        assert all(thread.result() for thread in asking)
    keys.close()
