"""Which service a command speaks to, and what it says where there is none."""

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from regard_client import RequestRefused
from regard_client.connection import server_url
from service import VERSION
from service.api.app import create_routes
from service.auth.api_keys import create_key
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from service.cli.connection import waiting_notes
from service.settings import ClientSettings
from tests.support.busy_server import busy_server
from tests.support.cli_runner import Regard
from tests.support.project_files import ROOT
from tests.support.running_server import running_server


def test_the_version_is_that_of_the_project(regard: Regard) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["version"] == VERSION == create_routes().version
    assert regard("--version") == (0, f"regard {VERSION}\n", "")


def test_the_service_is_the_one_named_or_the_one_of_the_environment(
    regard: Regard, url: str, free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = url.removeprefix("http://")
    assert regard("models", "--url", bare)[0] == 0
    assert regard("models", "--url", f"{url}/")[0] == 0
    monkeypatch.setenv("REGARD_URL", bare)
    assert regard("models")[0] == 0
    nowhere = f"127.0.0.1:{free_port}"
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


@pytest.mark.parametrize(("k", "words"), [("0", "must be at least 1"), ("x", "must be an integer")])
def test_what_a_number_must_be_is_said_in_plain_words(regard: Regard, k: str, words: str) -> None:
    status, _, noted = regard("search", "dog", "-k", k)
    assert (status, f"'-k': {words}" in noted) == (2, True)


def test_why_it_waits_is_said_once_for_each_reason(capsys: pytest.CaptureFixture[str]) -> None:
    tell = waiting_notes()
    for reason in ("Too many.", "Too many.", "It loads.", "Too many."):
        tell(RequestRefused(503, {"detail": reason}), 1.0)
    assert capsys.readouterr().err.splitlines() == ["Too many. Waiting.", "It loads. Waiting.", "Too many. Waiting."]


def test_an_overloaded_service_is_asked_again(regard: Regard) -> None:
    with busy_server([503, 503], Retry_After="0") as (address, bodies):
        status, said, noted = regard("failures", "--url", address)
    assert (status, said, len(bodies)) == (0, "no picture was set aside\n", 3)
    assert noted == "The server answered with status 503. Waiting.\n"


def test_a_missing_key_is_asked_for_in_words_for_a_command_line(regard: Regard, tmp_path: Path) -> None:
    change_keys(tmp_path / "keys.json", lambda keys: [create_key("me", Permission.READ, 0.0)[1]])
    with running_server(tmp_path) as address:
        status, _, noted = regard("models", "--url", address)
    assert status == 1
    assert noted.endswith("Commands read it from REGARD_API_KEY.\n")
    assert "api_key" not in noted


def test_the_default_address_is_the_same_everywhere() -> None:
    assert ClientSettings().url == server_url(None)


def test_a_shell_completes_commands_and_options() -> None:
    def completions(line: str) -> list[str]:
        words = {"COMP_WORDS": line, "COMP_CWORD": str(line.count(" ")), "_REGARD_COMPLETE": "complete_bash"}
        program = Path(sys.executable).with_name("regard")
        environment = {**os.environ, "PYTHONPATH": str(ROOT), **words}
        ran = subprocess.run([program], env=environment, capture_output=True, text=True, check=False)
        return ran.stdout.split()

    assert completions("regard sea") == ["search"]
    assert completions("regard search --min-p") == ["--min-probability"]
