"""Settings come from REGARD_ variables, refuse what they do not know, and explain themselves."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from service.settings import Settings


def test_variables_are_read_and_arguments_win(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_PORT", "9000")
    monkeypatch.setenv("REGARD_DATA_DIR", "/somewhere")
    settings = Settings(port=9001)
    assert settings.port == 9001
    assert settings.data_dir == Path("/somewhere")


def test_an_empty_variable_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_REDIS_URL", "")
    assert Settings().redis_url is None


def test_a_misspelt_variable_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_PROT", "9000")
    with pytest.raises(ValidationError, match="no setting is called REGARD_PROT"):
        Settings()


def test_names_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGARD_MODELS", "scan-t2i-avg, /models/mine ,scan-t2i-lse")
    settings = Settings()
    assert settings.models == ("scan-t2i-avg", "/models/mine", "scan-t2i-lse")
    assert settings.built_views == ("scan-t2i-avg", "mine", "scan-t2i-lse")
    assert Settings(views=("scan-t2i-lse",)).built_views == ("scan-t2i-lse",)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"models": ()}, "models"),
        ({"views": ("scan-i2t-lse",)}, "scan-i2t-lse"),
        ({"port": 70_000}, "port"),
        ({"max_pixels": 10**12}, "max_pixels"),
        ({"no_such_setting": 1}, "no_such_setting"),
    ],
)
def test_what_cannot_be_used_is_refused_by_name(wrong: dict[str, object], named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        Settings(**wrong)


def test_every_setting_explains_itself() -> None:
    for name, field in Settings.model_fields.items():
        assert field.description, name
        assert field.description.endswith("."), name


def test_it_listens_to_this_machine_alone_unless_told() -> None:
    assert Settings().host == "127.0.0.1"
