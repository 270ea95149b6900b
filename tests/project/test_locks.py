"""The locks: pinned, hashed, from no address, and one a part of the other."""

import re

import pytest

from tests.support.project_files import ROOT

PINNED = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)


def pins(lock: str) -> set[tuple[str, str, str]]:
    """The (name, version, condition) that a lock holds."""
    return set(PINNED.findall((ROOT / lock).read_text(encoding="utf-8")))


LOCKS = [f"requirements{kind}.lock" for kind in ("", "-dev", "-cluster", "-compiler")]


@pytest.mark.parametrize("lock", LOCKS)
def test_a_lock_holds_hashes_and_no_address(lock: str) -> None:
    text = (ROOT / lock).read_text(encoding="utf-8")
    assert "://" not in text
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "#"))]
    assert lines
    assert len(lines) == len(pins(lock)), "every requirement is pinned by == and has hashes"


def test_developing_takes_nothing_away_from_running() -> None:
    assert pins("requirements.lock") <= pins("requirements-dev.lock")
    assert "uv" in {name for name, _, _ in pins("requirements-dev.lock")}


def test_a_cluster_adds_to_what_one_machine_runs_on() -> None:
    one, many, developing = (pins(f"requirements{kind}.lock") for kind in ("", "-cluster", "-dev"))
    assert one < many < developing, "the tests run with what a cluster runs with"
    assert "ray" in {name for name, _, _ in many}
    assert "ray" not in {name for name, _, _ in one}
