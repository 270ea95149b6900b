"""A service killed at any named place has, after a restart, all that it acknowledged: whole, once, and found."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from index import fault_points
from index.fault_points import VARIABLE, FaultPoint
from tests.support.fault_walk import ledger_of
from tests.support.project_files import ROOT

# Places that are passed often are tried again further on: while pictures are deleted, erased and come again.
LATER = (
    *(f"{FaultPoint.BEFORE_COMMIT}:{times}" for times in (6, 20)),
    *(f"{FaultPoint.AFTER_COMMIT}:{times}" for times in (6, 20)),
    f"{FaultPoint.DERIVED_RENAMED}:5",
    f"{FaultPoint.RECORDS_WRITTEN}:8",
    f"{FaultPoint.ROWS_MANIFEST}:4",
    f"{FaultPoint.REPLACEMENT_RENAMED}:6",
)
PLACES = (*FaultPoint, *LATER)


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What became of a service that was killed, by the place."""
    command = [sys.executable, "-m", "tests.support.fault_walk", tmp_path_factory.mktemp("walk"), *PLACES]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert done.returncode == 0, done.stderr
    return {line["place"]: line for line in map(json.loads, done.stdout.splitlines())}


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("place", PLACES)
def test_a_service_killed_there_loses_nothing(walked: dict[str, dict[str, Any]], place: str) -> None:
    assert walked[place]["killed"], walked[place]
    assert walked[place]["wrong"] == []


def test_a_step_that_nobody_answered_may_have_been_made(tmp_path: Path) -> None:
    journal = tmp_path / "journal"
    journal.write_text("begun\ndone\nbegun\ndone\nbegun\n")
    ledger = ledger_of(journal)
    assert [entry.must_be_seen for entry in ledger.entries] == [True, True, True, False, False, False]
    assert [entry.must_be_hidden for entry in ledger.entries] == [False] * 5 + [True]


@pytest.mark.parametrize("place", ["somewhere", "before-commit:²", "before-commit:0", "before-commit:x", ""])
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(ValueError, match="not one of upload-received"):
        fault_points.arm(place)


PROGRAM = """
import sys
from pathlib import Path
from service.cli.main import arm_fault_point
arm_fault_point()
from index.files import replace_file
replace_file(Path("written"), b"whole")
"""


def write_a_file(folder: Path, variable: str | None) -> "subprocess.CompletedProcess[str]":
    """What the program `regard` does at first, and then a file that is replaced."""
    outside = {name: value for name, value in os.environ.items() if name != VARIABLE}
    environment = {**outside, "PYTHONPATH": str(ROOT)} | ({} if variable is None else {VARIABLE: variable})
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, env=environment, cwd=folder, capture_output=True, text=True, check=False)


def test_the_program_dies_where_its_environment_says_and_otherwise_nowhere(tmp_path: Path) -> None:
    died = write_a_file(tmp_path, "replacement-written")
    assert died.returncode == -signal.SIGKILL
    assert "will kill itself" in died.stderr
    assert not (tmp_path / "written").exists()
    assert write_a_file(tmp_path, "nowhere").stderr.endswith("with :TIMES perhaps\n")
    assert not (tmp_path / "written").exists()
    assert write_a_file(tmp_path, None).returncode == 0
    assert (tmp_path / "written").read_bytes() == b"whole"


def test_nothing_is_armed_by_itself() -> None:
    assert fault_points._armed is None
    for point in FaultPoint:
        fault_points.reach(point)
