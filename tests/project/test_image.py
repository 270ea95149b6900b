"""The images: what they copy is let in, and the one that compose builds knows nothing of Ray."""

import re

import pytest

from tests.e2e.compose import compose, stages
from tests.support.project_files import ROOT


def rests(stage: str, instruction: str) -> list[str]:
    """What stands behind each instruction of one kind in a stage."""
    return [rest for word, rest in stages()[stage] if word == instruction]


def test_every_file_that_an_image_copies_is_let_in() -> None:
    let_in = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = {
        source
        for stage in stages()
        for rest in rests(stage, "COPY")
        if not rest.startswith("--from=")
        for source in rest.split()[:-1]
    }
    assert {source for source in copied if f"!{source}" not in let_in} == set()
    assert "requirements-cluster.lock" in copied


@pytest.mark.parametrize(
    ("stage", "built", "locks"),
    [
        ("", "build", {"requirements.lock"}),
        ("cluster", "build-cluster", {"requirements.lock", "requirements-cluster.lock"}),
    ],
)
def test_an_image_holds_what_its_lock_names(stage: str, built: str, locks: set[str]) -> None:
    assert [rest for rest in rests(stage, "COPY") if rest.startswith("--from")] == [
        f"--from={built} /opt/regard /opt/regard"
    ]
    installs = " ".join(rests(built, "RUN"))
    into_the_image = re.findall(r"--require-hashes --python /opt/regard\S+ (?:--requirement )?(\S+)", installs)
    assert set(into_the_image) == locks


@pytest.mark.parametrize("stage", ["", "cluster"])
def test_an_image_runs_as_nobody_special(stage: str) -> None:
    assert rests(stage, "USER") == ["999:999"]


def test_compose_builds_the_stage_that_nobody_names() -> None:
    assert compose()["x-regard"]["build"] == "."
    assert list(stages())[-1] == ""
