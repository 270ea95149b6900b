"""Settings come from REGARD_ variables, refuse misspelt ones, and explain themselves."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.cli.settings_options import read_settings
from service.settings import PREFIX, ClientSettings, Settings


def test_variables_are_read_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_PORT", "9000")
    monkeypatch.setenv("REGARD_DATA_DIR", "/somewhere")
    settings = Settings(port=9001)
    assert settings.port == 9001
    assert settings.data_dir == Path("/somewhere")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_REDIS_URL", "")
    assert Settings().redis_url is None


def test_a_collector_has_an_address() -> None:
    assert Settings(otlp_endpoint="http://localhost:4318").otlp_endpoint == "http://localhost:4318"
    for wrong in ("foo", "localhost:4318", "http://", "ftp://collector"):
        with pytest.raises(ValidationError, match="is no address of a collector"):
            Settings(otlp_endpoint=wrong)


@pytest.mark.parametrize(
    ("misspelt", "right"),
    [
        ("REGARD_PROT", "REGARD_PORT"),
        ("REGARD_HOSTS", "REGARD_HOST"),
        ("REGARD_MODEL", "REGARD_MODELS"),
        ("REGARD_DATADIR", "REGARD_DATA_DIR"),
        ("REGARD_DECODE_TIMEOUT", "REGARD_DECODE_TIMEOUT_S"),
        ("REGARD_APIKEY", "REGARD_API_KEY"),
    ],
)
def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch, misspelt: str, right: str) -> None:
    monkeypatch.setenv(misspelt, "9000")
    with pytest.raises(ValidationError, match=f"no setting is called {misspelt}; did you mean {right}"):
        Settings()


def one_letter_off(name: str) -> Iterator[str]:
    """Each name with a letter left out, put in, changed, or changed for its neighbour."""
    letters = name.removeprefix(PREFIX)
    for place in range(len(letters)):
        before, letter, after = letters[:place], letters[place], letters[place + 1 :]
        yield from (PREFIX + before + after, PREFIX + before + "X" + letter + after, PREFIX + before + "X" + after)
        yield PREFIX + before + after[:1] + letter + after[1:]


@pytest.mark.parametrize("setting", Settings.model_fields)
def test_a_name_one_letter_off_a_setting_is_always_refused(setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = {PREFIX + name.upper() for name in Settings.model_fields}
    for misspelt in set(one_letter_off(PREFIX + setting.upper())) - known:
        with monkeypatch.context() as environment:
            environment.setenv(misspelt, "1")
            with pytest.raises(ValidationError, match=f"no setting is called {misspelt}; did you mean"):
                Settings()


def test_what_kubernetes_sets_for_a_service_called_regard_is_ignored(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    links = {
        "REGARD_SERVICE_HOST": "10.0.0.1",
        "REGARD_SERVICE_PORT": "8000",
        "REGARD_SERVICE_PORT_HTTP": "8000",
        "REGARD_PORT": "tcp://10.0.0.1:8000",
        "REGARD_PORT_8000_TCP": "tcp://10.0.0.1:8000",
        "REGARD_PORT_8000_TCP_PROTO": "tcp",
        "REGARD_PORT_8000_TCP_PORT": "8000",
        "REGARD_PORT_8000_TCP_ADDR": "10.0.0.1",
        "REGARD_API_SERVICE_HOST": "10.0.0.2",
        "REGARD_API_PORT": "tcp://10.0.0.2:8000",
    }
    for name, value in links.items():
        monkeypatch.setenv(name, value)
    assert Settings().port == 8000
    assert Settings(port=9000).port == 9000
    assert not [record for record in caplog.records if "REGARD_TEST" not in record.getMessage()]


def test_any_other_unknown_variable_is_ignored_with_one_warning(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("REGARD_OF_ANOTHER_PROGRAM", "REGARD_REDIS_PORT"):
        monkeypatch.setenv(name, "6379")
    Settings()
    Settings()
    told = [record.getMessage() for record in caplog.records if "REGARD_TEST" not in record.getMessage()]
    assert told == [
        "the environment variable REGARD_OF_ANOTHER_PROGRAM is no setting of Regard and is ignored",
        "the environment variable REGARD_REDIS_PORT is no setting of Regard and is ignored",
    ]


def test_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", "scan-t2i-avg, /models/mine ,scan-t2i-lse")
    settings = Settings()
    assert settings.models == ("scan-t2i-avg", "/models/mine", "scan-t2i-lse")
    assert settings.built_views == ("scan-t2i-avg", "mine", "scan-t2i-lse")
    assert Settings(views=("scan-t2i-avg",)).built_views == ("scan-t2i-avg",)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"models": ()}, "models"),
        ({"views": ("scan-i2t-lse",)}, "scan-i2t-lse"),
        ({"views": ("caan",)}, "views leaves out bfan-equal, the default model"),
        ({"port": 70_000}, "port"),
        ({"max_pixels": 10**12}, "max_pixels"),
        ({"threads": 99_999_999}, "threads"),
        ({"decode_timeout_s": math.inf}, "decode_timeout_s"),
        ({"inspect_timeout_s": 1e300}, "inspect_timeout_s"),
        ({"cache_seconds": math.inf}, "cache_seconds"),
        ({"rate_limit": math.inf}, "rate_limit"),
        ({"scrub_rate": math.inf}, "scrub_rate"),
        ({"scrub_rate": math.nan}, "scrub_rate"),
        ({"delete_grace_s": math.inf}, "delete_grace_s"),
        ({"no_such_setting": 1}, "no_such_setting"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(wrong: dict[str, Any], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        Settings(**wrong)


def test_every_setting_explains_itself() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_it_listens_to_this_machine_alone_unless_told() -> None:
    assert Settings().host == "127.0.0.1"


def test_the_key_of_commands_is_no_setting_of_a_service_and_is_not_shown(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("REGARD_API_KEY", "rgd_secret")
    Settings()
    assert not [record for record in caplog.records if "API_KEY" in record.getMessage()]
    settings = ClientSettings()
    assert settings.api_key is not None
    assert settings.api_key.get_secret_value() == "rgd_secret"
    assert "rgd_secret" not in repr(settings)


@pytest.mark.parametrize("said", ["true", "1", "yes"])
def test_a_switch_is_a_variable_and_a_flag(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    monkeypatch.setenv("REGARD_INSECURE", said)
    assert Settings().insecure
    assert not read_settings({"insecure": False}).insecure
