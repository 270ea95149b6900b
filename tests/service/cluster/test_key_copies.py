"""A router's copy of the keys counts as long as the director says now and then that it is right."""

from pathlib import Path

import pytest

from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.key_ring import KeyRing
from service.auth.permissions import Permission
from service.cluster.routing.router import KEYS_LAST_S, KeyFileCopy
from service.errors import NotReady


def test_keys_count_for_a_while_without_the_director_and_again_once_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now, (key, stored) = [0.0], create_key("me", Permission.READ, 0.0)
    change_keys(tmp_path / "director.json", lambda _: [stored])
    content = (tmp_path / "director.json").read_bytes()
    copy = KeyFileCopy(tmp_path / "keys.json", lambda: now[0])
    copy.update(content)
    ring = KeyRing(copy.path)
    ring.doubted_by(copy.doubt)
    now[0] = KEYS_LAST_S
    assert ring.identify(key) == stored
    now[0] += 1
    with pytest.raises(NotReady):
        ring.identify(key)
    assert ring.required
    assert "no API key is accepted: the director, which knows" in caplog.text
    copy.update(content)
    assert ring.identify(key) == stored
    ring.close()


def test_where_there_are_no_keys_nobody_is_refused_without_the_director(tmp_path: Path) -> None:
    now = [0.0]
    copy = KeyFileCopy(tmp_path / "keys.json", lambda: now[0])
    copy.update(None)
    ring = KeyRing(copy.path)
    ring.doubted_by(copy.doubt)
    now[0] = 2 * KEYS_LAST_S
    assert not ring.required
