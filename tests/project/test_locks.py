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


def names(lock: str) -> set[str]:
    """Names of what a lock holds."""
    return {name for name, _, _ in pins(lock)}


def test_what_develops_installs_runs_too() -> None:
    """One command installs all locks that `make test` needs: no name of one has another version in another."""
    command = re.search(r"^DEV_LOCKS := (.+)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert command is not None
    assert command[1].split() == [f"requirements{kind}.lock" for kind in ("", "-image", "-cluster", "-dev")]
    whole = set().union(*(pins(lock) for lock in command[1].split()))
    conditions = {(name, condition) for name, _, condition in whole}
    assert len(conditions) == len(whole)
    assert "uv" in names("requirements-dev.lock")
    # Its source, which is all that there is for ARM64, fetches more source when it is built.
    assert ("pytrec-eval-terrier", "platform_machine == 'x86_64'") in conditions


@pytest.mark.parametrize(
    ("kind", "added"),
    [
        ("image", {"rawpy", "reverse-geocode", "opentelemetry-exporter-otlp-proto-http"}),
        ("cluster", {"ray"}),
        ("dev", {"pytest", "mypy", "ruff"}),
    ],
)
def test_a_lock_of_what_is_added_holds_that_alone(kind: str, added: set[str]) -> None:
    adding = names(f"requirements-{kind}.lock")
    assert names("requirements.lock").isdisjoint(adding)
    assert added <= adding
    if kind == "dev":
        assert adding.isdisjoint(names("requirements-image.lock") | names("requirements-cluster.lock"))
