"""Which service a command speaks to, and what it says where there is none."""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service import VERSION
from service.api.app import create_routes
from service.client import server_url
from service.errors import UserError
from tests.support.cli_runner import Regard
from tests.support.project_files import ROOT
from tests.support.redis_server import free_port
from tests.support.running_server import running_server


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running_server(tmp_path_factory.mktemp("data")) as address:
        yield address


def test_the_version_is_that_of_the_project(regard: Regard) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION == create_routes().version
    assert regard("--version") == (0, f"regard {VERSION}\n", "")


def test_the_service_is_the_one_named_or_the_one_of_the_environment(
    regard: Regard, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = url.removeprefix("http://")
    assert regard("models", "--url", bare)[0] == 0
    assert regard("models", "--url", f"{url}/")[0] == 0
    monkeypatch.setenv("REGARD_URL", bare)
    assert regard("models")[0] == 0
    nowhere = f"127.0.0.1:{free_port()}"
    monkeypatch.setenv("REGARD_URL", nowhere)
    assert regard("models", "--url", bare)[0] == 0
    status, said, noted = regard("models")
    assert (status, said) == (1, "")
    assert noted.startswith(f"regard: nobody answers at http://{nowhere} (")
    assert "`regard serve`" in noted
    assert "--url or REGARD_URL" in noted


@pytest.mark.parametrize("command", [["models"], ["delete", "0" * 32], ["restore", "0" * 32], ["search", "red"]])
def test_every_command_says_that_an_address_is_none(regard: Regard, command: list[str]) -> None:
    status, said, noted = regard(*command, "--url", "ftp://photos")
    assert (status, said) == (1, "")
    assert noted == (
        "regard: 'ftp://photos' is no address of a service: write host:port, http://host:port or https://host\n"
    )


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("localhost:8000", "http://localhost:8000"),
        (" nas.local ", "http://nas.local"),
        ("[::1]:8000", "http://[::1]:8000"),
        ("https://photos.example.org/", "https://photos.example.org"),
        ("http://example.org/regard/", "http://example.org/regard"),
    ],
)
def test_an_address_without_a_scheme_is_one_of_http(written: str, read: str) -> None:
    assert server_url(written) == read


@pytest.mark.parametrize(
    "wrong", ["", "http://", "::1", "host:port", "host:99999999999", "http://host/?a=b", "file:///a"]
)
def test_what_is_no_address_is_named(wrong: str) -> None:
    with pytest.raises(UserError, match="is no address of a service") as refused:
        server_url(wrong)
    assert repr(wrong) in str(refused.value)


@given(st.from_regex(r"[a-z]{1,9}(\.[a-z]{2,9})?", fullmatch=True), st.integers(1, 65535))
def test_an_address_that_was_read_is_read_as_itself(host: str, port: int) -> None:
    read = server_url(f"{host}:{port}")
    assert read == f"http://{host}:{port}"
    assert server_url(read) == read


def test_a_shell_completes_commands_and_options() -> None:
    def completions(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_REGARD_COMPLETE": "complete_bash"}
        program = Path(sys.executable).with_name("regard")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **words}
        ran = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
        return ran.stdout.split()

    assert completions("regard sea") == ["search"]
    assert completions("regard search --min-p") == ["--min-probability"]
