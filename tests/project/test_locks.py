"""The locks: pinned, hashed, from no address, and one a part of the other."""

import re

import pytest

from tests.support.project_files import ROOT

PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)


def pins(lock: str) -> set[tuple[str, str, str]]:
    """The (name, version, condition) that a lock holds."""
    return set(PINNED.findall((ROOT / lock).read_text(encoding="utf-8")))


LOCKS = [f"requirements{kind}.lock" for kind in ("", "-dev", "-image", "-cluster", "-compiler")]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith(("--hash", "#"))]
    assert lines
    assert len(lines) == len(pins(lock)), "every requirement is pinned by == and has hashes"


def test_developing_takes_nothing_away_from_running() -> None:
    assert pins("requirements.lock") <= pins("requirements-dev.lock")
    assert "uv" in {name for name, _, _ in pins("requirements-dev.lock")}


@pytest.mark.parametrize(
    ("kind", "added"),
    [("image", {"rawpy", "reverse-geocode", "opentelemetry-exporter-otlp-proto-http"}), ("cluster", {"ray"})],
)
def test_a_lock_of_what_an_image_adds_holds_that_alone(kind: str, added: set[str]) -> None:
    running, adding, developing = (pins(f"requirements{one}.lock") for one in ("", f"-{kind}", "-dev"))
    assert {name for name, _, _ in running}.isdisjoint(name for name, _, _ in adding)
    assert adding < developing, "the tests run with what the image holds"
    assert added <= {name for name, _, _ in adding}
