"""Without keys a service listens on this machine alone, unless it is told otherwise."""

import logging
from pathlib import Path

import pytest

from regard_client.connection import is_this_machine
from service.auth.api_keys import create_key
from service.auth.exposure import check_exposure, is_any_address, is_loopback, is_loopback_name, open_without_keys
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.errors import Misconfigured
from service.settings import Settings

LOOPBACK = ["127.0.0.1", "127.1.2.3", "::1", "localhost", "LOCALHOST"]
ELSEWHERE = ["0.0.0.0", "::", "192.168.1.2", "10.0.0.1", "example.org", "localhost.example.org", "", "127.1", "fe80::1"]
ELSEWHERE += ["regard.localhost", "notlocalhost"]


def said(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.name == "service.auth.exposure"]


@pytest.mark.parametrize(
    ("host", "expected"),
    [("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("192.0.2.7", False), ("photos.example", False)],
)
def test_an_address_that_stands_for_all_is_known(host: str, expected: bool) -> None:
    assert is_any_address(host) == expected


@pytest.mark.parametrize("host", LOOPBACK)
def test_this_machine_needs_no_key(tmp_path: Path, host: str, caplog: pytest.LogCaptureFixture) -> None:
    assert is_loopback(host)
    settings = Settings(data_dir=tmp_path, host=host)
    check_exposure(settings)
    assert open_without_keys(settings)
    assert not said(caplog)


@pytest.mark.parametrize("host", [*LOOPBACK, *ELSEWHERE])
def test_clients_and_browsers_are_at_this_machine_by_names_below_localhost_too(host: str) -> None:
    is_here = host in LOOPBACK or host == "regard.localhost"
    assert is_loopback_name(host.lower()) == is_here
    if host:
        assert is_this_machine(f"http://[{host}]" if ":" in host else f"http://{host}") == is_here


@pytest.mark.parametrize("host", ELSEWHERE)
def test_any_other_address_needs_one(tmp_path: Path, host: str) -> None:
    settings = Settings(data_dir=tmp_path, host=host)
    with pytest.raises(Misconfigured, match=r"regard keys create .*--insecure"):
        check_exposure(settings)
    assert not open_without_keys(settings)


def test_one_key_is_enough_also_one_that_lets_nobody_in(tmp_path: Path) -> None:
    key = create_key("one", Permission.READ, 0.0)[1].revoke(0.0)
    change_keys(tmp_path / "keys.json", lambda keys: [key])
    settings = Settings(data_dir=tmp_path, host="0.0.0.0")
    check_exposure(settings)
    assert not open_without_keys(settings)


def test_insecure_is_the_one_way_around_and_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    settings = Settings(data_dir=tmp_path, host="0.0.0.0", insecure=True)
    check_exposure(settings)
    assert open_without_keys(settings)
    (record,) = said(caplog)
    assert record.levelno == logging.WARNING
    assert "everybody" in record.getMessage()
