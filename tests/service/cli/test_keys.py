"""`regard keys`: a key is shown once, listed without its secret, and revoked for good."""

import json
from pathlib import Path

import pytest

from index.catalog.catalog import Catalog
from service.auth.api_keys import KEY
from service.auth.key_file import read_keys
from service.cli.commands.doctor import CHECKS, run_check
from service.settings import Settings
from tests.support.cli_runner import Regard


def create(regard: Regard, folder: Path, name: str, *more: object) -> str:
    status, out, note = regard("keys", "create", name, "--data-dir", folder, *more)
    assert status == 0, note
    key = out.removesuffix("\n")
    assert KEY.fullmatch(key)
    assert key not in note
    return key


def listed(regard: Regard, folder: Path) -> list[dict[str, str | None]]:
    status, out, _ = regard("keys", "list", "--data-dir", folder, "--json")
    assert status == 0
    found: list[dict[str, str | None]] = json.loads(out)["keys"]
    return found


def test_a_key_is_printed_once_and_kept_as_a_digest(regard: Regard, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "data"
    key = create(regard, folder, "phone", "--permission", "write")
    (stored,) = read_keys(folder / "keys.json")
    assert stored.matches(key)
    assert (stored.name, stored.permission, stored.expires_at) == ("phone", "write", None)
    _, table, _ = regard("keys", "list", "--data-dir", folder)
    assert "phone" in table
    for shown in (table, json.dumps(listed(regard, folder)), (folder / "keys.json").read_text()):
        assert key.split("_", 2)[2] not in shown
    assert stored.digest not in table


def test_as_json_the_key_comes_with_what_it_may_do(regard: Regard, tmp_path: Path) -> None:
    _, out, note = regard(
        "keys", "create", "job", "--permission", "read", "--days", 7, "--data-dir", tmp_path, "--json"
    )
    made = json.loads(out)
    assert KEY.fullmatch(made["key"])
    assert (made["permission"], made["state"]) == ("read", "active")
    assert made["expires_at"] > made["created_at"]
    assert note == ""


def test_keys_are_revoked_by_name_or_id_and_stay_listed(regard: Regard, tmp_path: Path) -> None:
    for name in ("one", "two"):
        create(regard, tmp_path, name, "--permission", "read")
    two = read_keys(tmp_path / "keys.json")[1]
    assert regard("keys", "revoke", "one", "--data-dir", tmp_path)[0] == 0
    assert regard("keys", "revoke", two.key_id, "--data-dir", tmp_path)[0] == 0
    assert [one["state"] for one in listed(regard, tmp_path)] == ["revoked", "revoked"]
    create(regard, tmp_path, "one", "--permission", "admin")  # the name is free again
    assert [one["state"] for one in listed(regard, tmp_path)] == ["revoked", "revoked", "active"]
    status, out, _ = regard("keys", "revoke", "one", "--data-dir", tmp_path, "--json")
    assert (status, json.loads(out)["permission"]) == (0, "admin")


def test_mistakes_are_said_in_one_line_and_change_nothing(regard: Regard, tmp_path: Path) -> None:
    create(regard, tmp_path, "one", "--permission", "read")
    before = (tmp_path / "keys.json").read_bytes()
    for arguments, word in [
        (("create", "one", "--permission", "admin"), "already a key called 'one'"),
        (("create", "a\nb", "--permission", "admin"), "cannot be called"),
        (("revoke", "nobody"), "no key 'nobody'"),
    ]:
        status, out, said = regard("keys", *arguments, "--data-dir", tmp_path)
        assert (status, out) == (1, "")
        assert word in said
        assert len(said.splitlines()) == 1
    assert regard("keys", "create", "two", "--permission", "everything", "--data-dir", tmp_path)[0] == 2
    assert regard("keys", "create", "two", "--data-dir", tmp_path)[0] == 2, "nobody gets a permission unasked"
    for days in ("-1", "0", "nan", "inf", "4000000"):
        given = ("--permission", "read", "--days", days, "--data-dir", tmp_path)
        status, _, noted = regard("keys", "create", "two", *given)
        assert (status, "Input should" in noted) == (2, False), days
    assert (tmp_path / "keys.json").read_bytes() == before


def test_a_key_in_a_folder_that_no_service_uses_is_told_of(regard: Regard, tmp_path: Path) -> None:
    given = ["--permission", "read", "--data-dir", tmp_path / "other"]
    said = regard("keys", "create", "one", *given)[2]
    assert f"{tmp_path / 'other'} holds no pictures yet: the key is for a service on that folder" in said
    Catalog(tmp_path / "other" / "catalog.sqlite").close()
    assert "holds no pictures" not in regard("keys", "create", "two", *given)[2]
    (tmp_path / "cluster.json").write_text("{}")  # its pictures lie in its shards
    assert "holds no pictures" not in regard("keys", "create", "one", *given[:-1], tmp_path)[2]


def test_doctor_makes_no_folder(regard: Regard, tmp_path: Path) -> None:
    found = run_check("data", CHECKS["data"], Settings(data_dir=tmp_path / "none"))
    assert found["ok"]
    assert "the first start creates it" in found["found"]
    assert list(tmp_path.iterdir()) == []


def test_no_keys_are_said_in_words(regard: Regard, tmp_path: Path) -> None:
    status, out, note = regard("keys", "list", "--data-dir", tmp_path)
    assert status == 0
    assert "no API keys" in note
    assert out == ""


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.2", "::"])
def test_a_service_for_others_does_not_start_without_a_key(regard: Regard, tmp_path: Path, host: str) -> None:
    status, _, said = regard("serve", "--role", "api", "--host", host, "--data-dir", tmp_path / "data")
    assert status == 1
    assert "regard keys create" in said
    assert "--insecure" in said
    assert not (tmp_path / "data").exists()


def test_doctor_says_how_many_keys_can_be_used(regard: Regard, tmp_path: Path) -> None:
    check, settings = CHECKS["keys"], Settings(data_dir=tmp_path)
    assert "there are none" in check(settings)
    for name in ("one", "two"):
        create(regard, tmp_path, name, "--permission", "read")
    regard("keys", "revoke", "one", "--data-dir", tmp_path)
    assert check(settings) == "1 of 2 can be used"
    regard("keys", "revoke", "two", "--data-dir", tmp_path)
    assert run_check("keys", check, settings) == {
        "part": "keys",
        "ok": False,
        "found": "none of 2 can be used, so all requests are refused; `regard keys create` makes one",
    }
    (tmp_path / "keys.json").write_text("nonsense")
    assert not run_check("keys", check, settings)["ok"]
