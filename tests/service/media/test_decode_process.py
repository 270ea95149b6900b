"""Whatever a decoding process answers, its parent allocates little, waits no longer than it said, and goes on."""

import json
import struct
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from service.errors import UnreadablePicture
from service.media.decode_messages import LARGEST_BODY
from service.media.decode_pool import DecodeFailed, DecodePool
from service.media.decode_process import LARGEST_MESSAGE, DecodeLimits, NoDecoder

LIMITS = DecodeLimits(timeout_s=20, memory_bytes=2**31, max_pixels=10**6, inspect_s=20)
READY = {"protection": {"seccomp": "on"}}
DESCRIBED = {"caption": "", "keywords": []}
PIXELS = {"size": [2, 1], "reduced": [2, 1], "taken_at": None, "parts": [6], **DESCRIBED}
PYTHON = sys.executable
Answering = Callable[..., DecodePool]


def frame(message: object, body: bytes = b"") -> bytes:
    text = json.dumps(message).encode()
    return struct.pack("<II", len(text), len(body)) + text + body


@pytest.fixture
def answering(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Answering:
    """A pool whose processes send these bytes for every request."""

    def pool(answer: bytes) -> DecodePool:
        program = tmp_path / "program"
        (tmp_path / "ready").write_bytes(frame(READY))
        (tmp_path / "answer").write_bytes(answer)
        program.write_text(
            textwrap.dedent(f"""\
                #!{PYTHON} -S
                import os, struct
                def send(name):
                    with open({str(tmp_path)!r} + "/" + name, "rb") as file:
                        os.write(1, file.read())
                send("ready")
                while len(head := os.read(0, 8)) == 8:
                    os.read(0, struct.unpack("<II", head)[0])
                    send("answer")
            """)
        )
        program.chmod(0o755)
        monkeypatch.setattr(sys, "executable", str(program))
        return DecodePool(1, LIMITS)

    return pool


def test_an_answer_in_the_right_form_is_taken(answering: Answering) -> None:
    with answering(frame(PIXELS, bytes(6))) as pool:
        assert pool.decode(Path("any")).picture.size == (2, 1)
    with answering(frame({"extension": "png"})) as pool:
        assert pool.inspect(Path("any")) == "png"
    with answering(frame({"unreadable": "It is text."})) as pool, pytest.raises(UnreadablePicture, match="text"):
        pool.inspect(Path("any"))


@pytest.mark.parametrize(
    "coordinates", [[91.0, 0.0], [0.0, -181.0], [0.0], [0, 0], [True, 0.0], "Oslo", [float("nan"), 0.0]]
)
def test_coordinates_that_are_none_end_the_process(answering: Answering, coordinates: object) -> None:
    with answering(frame(PIXELS | {"coordinates": [-59.9, 179.0]}, bytes(6))) as pool:
        assert pool.decode(Path("any"), with_coordinates=True).coordinates == (-59.9, 179.0)
    with answering(frame(PIXELS | {"coordinates": coordinates}, bytes(6))) as pool, pytest.raises(DecodeFailed):
        pool.decode(Path("any"), with_coordinates=True)


@pytest.mark.parametrize(
    "answer",
    [
        struct.pack("<II", 2, LARGEST_BODY + 1) + b"{}",
        struct.pack("<II", LARGEST_MESSAGE + 1, 0),
        struct.pack("<II", 2**32 - 1, 2**32 - 1),
        struct.pack("<II", 3, 0) + b"{a}",
        struct.pack("<II", 60_000, 0) + b"[" * 60_000,
        frame([]),
        frame("text"),
        frame({}),
        frame({"reason": 5, "final": True}),
        frame({"reason": "said", "final": "no"}),
        frame(PIXELS, bytes(5)),
        frame(PIXELS | {"parts": [6, 0]}, bytes(6)),
        frame(PIXELS | {"parts": [-1]}, b""),
        frame(PIXELS | {"parts": [True]}, b"x"),
        frame(PIXELS | {"parts": [3]}, bytes(3)),
        frame(PIXELS | {"reduced": [2, 1, 1]}, bytes(6)),
        frame(PIXELS | {"reduced": [10**6, 10**6]}, bytes(6)),
        frame(PIXELS | {"size": [0, 1]}, bytes(6)),
        frame(PIXELS | {"size": "big"}, bytes(6)),
        frame(PIXELS | {"taken_at": "now"}, bytes(6)),
        frame(PIXELS | {"taken_at": 5}, bytes(6)),
        frame(PIXELS | {"taken_at": float("inf")}, bytes(6)),
        frame(PIXELS | {"coordinates": [59.9, 10.7]}, bytes(6)),  # which nobody asked for
        frame(PIXELS | {"caption": None}, bytes(6)),
        frame(PIXELS | {"caption": "a" * 513}, bytes(6)),
        frame(PIXELS | {"caption": "two\nlines"}, bytes(6)),
        frame(PIXELS | {"keywords": "beach"}, bytes(6)),
        frame(PIXELS | {"keywords": [1]}, bytes(6)),
        frame(PIXELS | {"keywords": [""]}, bytes(6)),
        frame(PIXELS | {"keywords": ["a"] * 512}, bytes(6)),
    ],
)
def test_an_answer_in_another_form_ends_the_process(answering: Answering, answer: bytes) -> None:
    with answering(answer) as pool:
        with pytest.raises(DecodeFailed, match="answered in another form") as failed:
            pool.decode(Path("any"))
        assert not failed.value.final
        assert not failed.value.timed_out


@pytest.mark.parametrize("extension", ["exe", "../../x", 5, None])
def test_a_format_that_is_not_known_is_no_answer(answering: Answering, extension: object) -> None:
    with answering(frame({"extension": extension})) as pool, pytest.raises(DecodeFailed, match="another form"):
        pool.inspect(Path("any"))


def test_no_file_is_written_where_none_was_asked_for(answering: Answering, tmp_path: Path) -> None:
    message = PIXELS | {"parts": [6, 3], "stripped": "../../elsewhere"}
    with answering(frame(message, bytes(9))) as pool, pytest.raises(DecodeFailed, match="another form"):
        pool.decode(Path("any"), stripped=tmp_path / "stripped" / "a.png")
    assert not (tmp_path / "stripped").exists()


@pytest.mark.slow
def test_what_a_process_sends_unasked_counts_for_no_later_request(answering: Answering) -> None:
    twice = frame(PIXELS, b"first!") + frame(PIXELS, b"stale!")
    with answering(twice) as pool:
        for _ in range(3):
            assert pool.decode(Path("any")).picture.tobytes() == b"first!"


def test_a_process_that_cannot_be_started_is_no_pictures_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with DecodePool(1, LIMITS) as pool:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "missing"))
        for _ in range(2):  # the place of the process is given back each time
            with pytest.raises(NoDecoder, match=r"did not start: .*missing"):
                pool.inspect(Path("any"))
        monkeypatch.setattr(sys, "executable", "/bin/false")
        with pytest.raises(NoDecoder, match="did not start: its process ended with 1"):
            pool.decode(Path("any"))
