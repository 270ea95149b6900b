"""`regard doctor` says who is answered by a service without keys."""

from pathlib import Path

import pytest

from service.cli.commands import doctor
from service.settings import Settings


@pytest.mark.parametrize(
    ("host", "insecure", "words"),
    [
        ("127.0.0.1", False, "this machine alone"),
        ("0.0.0.0", True, "everybody who reaches 0.0.0.0 port 8000 may read"),
        ("0.0.0.0", False, "will not listen on 0.0.0.0"),
    ],
)
def test_doctor_says_who_is_answered_without_keys(tmp_path: Path, host: str, insecure: bool, words: str) -> None:
    assert words in doctor.CHECKS["keys"](Settings(data_dir=tmp_path, host=host, insecure=insecure))
