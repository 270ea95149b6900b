"""`regard chaos` finds nothing wrong with the service."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.small_services import small_service

REGARD = str(Path(sys.executable).with_name("regard"))
LAST_LINE = re.compile(r"kills (\d+), acknowledged (\d+), lost (\d+), half (\d+), duplicated (\d+), seed (\d+)")


def run_chaos(folder: Path, *more: str) -> "subprocess.Popen[str]":
    """The command, on small models; its folder of data is `folder/run`."""
    flags = [word for name, value in small_service(folder).items() for word in (f"--{name}", value)]
    command = [REGARD, "chaos", "--data-dir", str(folder / "run"), "--pictures", "24", *flags, *more]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folder)


def last_line(output: str) -> tuple[int, ...]:
    """The numbers of the last line."""
    found = LAST_LINE.fullmatch(output.splitlines()[-1])
    assert found is not None, output
    return tuple(map(int, found.groups()))


@pytest.mark.slow
@pytest.mark.redis
@pytest.mark.timeout(1800)
def test_nothing_is_lost_while_everything_is_killed(tmp_path: Path) -> None:
    running = run_chaos(tmp_path, "--minutes", "0.3", "--every", "3", "--kill-chance", "0.8", "--seed", "6", "--redis")
    output, said = running.communicate()
    assert running.returncode == 0, said
    kills, acknowledged, *wrong, seed = last_line(output)
    assert kills >= 3
    assert acknowledged >= 1
    assert (wrong, seed) == ([0, 0, 0], 6)
    assert output.count("\n") == 1
