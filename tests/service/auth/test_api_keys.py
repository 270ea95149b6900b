"""API keys: made at random, stored as digests, recognised by themselves alone."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.auth.api_keys import KEY, SESSION, create_key, redact_keys, session_token, token_id
from service.auth.permissions import Permission
from service.errors import UserError

KEY_TEXT, STORED = create_key("phone", Permission.WRITE, 100.0, expires_at=200.0)


def test_a_key_is_recognised_and_nothing_stored_tells_it() -> None:
    assert STORED.matches(KEY_TEXT)
    assert STORED.matches(session_token(KEY_TEXT))
    secret = KEY_TEXT.split("_", 2)[2]
    assert secret not in repr(STORED)
    assert session_token(KEY_TEXT) not in repr(STORED)
    assert STORED.digest == hashlib.sha256(KEY_TEXT.encode()).hexdigest()


def test_keys_are_all_different_and_well_formed() -> None:
    made = [create_key("one", Permission.READ, 0.0) for _ in range(200)]
    assert len({key for key, _ in made}) == len({stored.key_id for _, stored in made}) == 200
    for key, stored in made:
        assert KEY.fullmatch(key)
        assert SESSION.fullmatch(session_token(key))
        assert token_id(key) == token_id(session_token(key)) == stored.key_id


@given(st.integers(0, len(KEY_TEXT) - 1), st.sampled_from("abcXYZ019_-"))
def test_a_key_with_one_other_character_is_not_it(place: int, letter: str) -> None:
    changed = KEY_TEXT[:place] + letter + KEY_TEXT[place + 1 :]
    assert STORED.matches(changed) is (changed == KEY_TEXT)


def test_a_session_token_is_not_the_key_of_another_nor_of_itself() -> None:
    other, stored = create_key("other", Permission.ADMIN, 0.0)
    assert not STORED.matches(session_token(other))
    assert not stored.matches(KEY_TEXT)
    # What is stored is no key either: a leaked file lets nobody in.
    assert not STORED.matches(STORED.digest)
    assert not STORED.matches(f"rgs_{STORED.key_id}_{STORED.session_digest}")


def test_a_key_ends_when_it_expires_or_is_revoked() -> None:
    assert STORED.unusable(199.9) is None
    assert STORED.unusable(200.0) == "has expired"
    revoked = STORED.revoke(150.0)
    assert revoked.unusable(0.0) == "was revoked"
    assert revoked.revoke(160.0).revoked_at == 150.0


@pytest.mark.parametrize("name", ["phone", "Ana's"[:3], "a@b.c", "backup job 2", "é", "x" * 64])
def test_names_of_people_and_programs_are_taken(name: str) -> None:
    assert create_key(name, Permission.READ, 0.0)[1].name == name


@pytest.mark.parametrize("name", ["", " ", "a ", " a", "a\nb", "x" * 5000, "a\x1b[0m", 'a"b'])
def test_names_that_would_spoil_a_line_are_refused_and_not_repeated_whole(name: str) -> None:
    with pytest.raises(UserError, match="cannot be called") as refused:
        create_key(name, Permission.READ, 0.0)
    assert len(str(refused.value)) < 300


def test_permissions_include_those_below() -> None:
    included = {one: {other for other in Permission if one.includes(other)} for one in Permission}
    read, write, admin = Permission
    assert included == {read: {read}, write: {read, write}, admin: {read, write, admin}}


@given(st.text(max_size=40), st.text(max_size=40))
def test_keys_are_left_out_of_any_text(before: str, after: str) -> None:
    shown = redact_keys(before + KEY_TEXT + " " + session_token(KEY_TEXT) + after)
    assert KEY_TEXT.split("_", 2)[2] not in shown
    assert session_token(KEY_TEXT).split("_", 2)[2] not in shown
    assert STORED.key_id in shown
