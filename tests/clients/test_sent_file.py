"""Files that change while they are sent."""

import io
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard_client import Client
from regard_client.sent_file import SentFile
from tests.support.busy_server import busy_server


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("files") / "a.png"
    path.write_bytes(bytes(range(200)))
    return path


@given(
    steps=st.lists(
        st.one_of(st.tuples(st.just("read"), st.integers(-1, 300)), st.tuples(st.just("seek"), st.integers(0, 250)))
    )
)
def test_it_reads_as_the_bytes_that_it_had(file: Path, steps: list[tuple[str, int]]) -> None:
    like = io.BytesIO(file.read_bytes())
    with SentFile(file) as sent:
        for step, number in steps:
            assert getattr(sent, step)(number) == getattr(like, step)(number)
            assert sent.tell() == like.tell()
        assert sent.seek(0, io.SEEK_END) == like.seek(0, io.SEEK_END)


def test_what_is_added_meanwhile_is_not_sent(tmp_path: Path) -> None:
    path = tmp_path / "growing.png"
    path.write_bytes(b"begun")
    with SentFile(path) as sent:
        with path.open("ab") as other:
            other.write(b" and more")
        assert sent.read() == b"begun"
        assert sent.read() == b""


def test_a_file_that_becomes_shorter_is_named(tmp_path: Path) -> None:
    path = tmp_path / "cut.png"
    path.write_bytes(b"begun")
    with SentFile(path) as sent:
        path.write_bytes(b"be")
        with pytest.raises(OSError, match="became shorter while it was sent") as fault:
            sent.read()
        assert fault.value.filename == str(path)


def test_a_file_that_grows_is_taken_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "growing.png"
    path.write_bytes(b"begun")
    opened = SentFile.__init__

    def grow(self: SentFile, name: Path) -> None:
        opened(self, name)
        with path.open("ab") as other:
            other.write(b" and more")

    monkeypatch.setattr(SentFile, "__init__", grow)
    with busy_server([]) as (url, bodies), Client(url) as client:
        client.ingest([path])
    assert b"begun\r\n" in bodies[0]
    assert b"and more" not in bodies[0]
