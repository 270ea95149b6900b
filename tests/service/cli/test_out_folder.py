"""The folder of a long command: one writer at a time."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from models.training.stopping import Stopped
from service.cli.out_folder import sole_writer
from service.errors import UserError
from tests.support.project_files import ROOT

HOLD = """
import sys
from pathlib import Path
from service.cli.out_folder import sole_writer
with sole_writer(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_second_writer_is_refused_until_the_first_has_ended(tmp_path: Path) -> None:
    out = tmp_path / "run" / "one"
    command = [sys.executable, "-c", HOLD, str(out)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == b"held\n"
        with pytest.raises(UserError, match=f"another process writes {out}"), sole_writer(out):
            raise AssertionError
        first.kill()
    with sole_writer(out):
        assert list(out.iterdir()) == []


def test_whoever_stops_it_hears_how_it_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), sole_writer(tmp_path):
        raise KeyboardInterrupt
    assert f"the same command resumes with what {tmp_path} holds" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="143"), sole_writer(tmp_path):
        raise Stopped(signal.SIGTERM)
    assert f"resumes with what {tmp_path} holds, to the last step" in capsys.readouterr().err
    with sole_writer(tmp_path):
        pass
