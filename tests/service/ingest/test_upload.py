"""Forms of any shape are read as they come, bounded in every direction, and leave no file behind."""

import asyncio
import hashlib
import random
import shutil
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from service.errors import InvalidRequest, TooLarge
from service.ingest.multipart import QUOTED, FormLimits, MultipartReader
from service.ingest.upload import in_threads, receive_form
from service.storage.temporary_folders import remove_abandoned
from tests.support.multipart_bodies import CONTENT_TYPE, multipart_body, part, pieces

LIMITS = FormLimits(max_file_bytes=1000, max_body_bytes=20_000, max_files=20, max_field_bytes=500)


def read(
    incoming: Path, body: bytes, cuts: Sequence[int] = (), length: int | None = None, limits: FormLimits = LIMITS
) -> tuple[list[tuple[str, str, bytes | None, str | None]], dict[str, str]]:
    """Files as (field, name, content, problem), and fields; the content None where there is no file."""

    async def run() -> tuple[list[tuple[str, str, bytes | None, str | None]], dict[str, str]]:
        async with receive_form(CONTENT_TYPE, length, pieces(body, cuts), incoming, limits) as found:
            files = []
            for file in found.files:
                content = file.path.read_bytes() if file.path.exists() else None
                if content is not None:
                    assert file.sha256 == hashlib.sha256(content).hexdigest()
                    assert file.size == len(content)
                files.append((file.field, file.filename, content, file.problem))
            return files, found.fields

    try:
        return asyncio.run(run())
    finally:
        assert list(incoming.iterdir()) == []


@settings(max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    contents=st.lists(
        st.one_of(st.binary(max_size=300), st.sampled_from([b"\r\n--the-boundar", b"\r\n--the-boundary"[:-1]])),
        max_size=5,
    ),
    cuts=st.lists(st.integers(0, 10_000), max_size=30),
)
def test_files_arrive_whole_however_the_network_cuts_them(
    tmp_path: Path, contents: list[bytes], cuts: list[int]
) -> None:
    body = multipart_body(part("note", b"hello"), *(part("images", c, f"{n}.jpg") for n, c in enumerate(contents)))
    files, fields = read(tmp_path, body, cuts)
    assert files == [("images", f"{number}.jpg", content, None) for number, content in enumerate(contents)]
    assert fields == {"note": "hello"}


def test_a_file_over_its_limit_is_dropped_and_those_behind_it_arrive(tmp_path: Path) -> None:
    body = multipart_body(part("images", b"x" * 5000, "large"), part("images", b"y" * 1000, "just right"))
    (large, right), _ = read(tmp_path, body, cuts=range(0, 6000, 100))
    assert large[2] is None
    assert large[3] is not None
    assert "over the limit" in large[3]
    assert right == ("images", "just right", b"y" * 1000, None)


@pytest.mark.parametrize("length", [None, 20_001])
def test_a_body_over_its_limit_is_refused_while_it_comes(tmp_path: Path, length: int | None) -> None:
    asked = []

    async def endless() -> AsyncIterator[bytes]:
        yield part("images", b"x" * 500, "first")
        while True:
            asked.append(1)
            yield b"x" * 1000

    async def run() -> None:
        async with receive_form(CONTENT_TYPE, length, endless(), tmp_path, LIMITS):
            pass

    with pytest.raises(TooLarge):
        asyncio.run(run())
    assert len(asked) == (20 if length is None else 0)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("../../etc/passwd", "../../etc/passwd"),
        ("a%00b.jpg", "a\0b.jpg"),
        ("say %22hi%22.jpg", 'say "hi".jpg'),
        ("100%.jpg", "100%.jpg"),
        ("x" * 4000, "x" * 4000),
        ("\N{SNOWMAN}.jpg", "\N{SNOWMAN}.jpg"),
        ("", ""),
    ],
)
def test_a_name_is_kept_as_it_came_and_is_no_path(tmp_path: Path, name: str, expected: str) -> None:
    incoming = tmp_path / "incoming"
    incoming.mkdir()
    files, _ = read(incoming, multipart_body(part("images", b"x", name)))
    assert files == [("images", expected, b"x", None)]
    assert [path.name for path in tmp_path.iterdir()] == ["incoming"]


@pytest.mark.parametrize(
    "body",
    [
        multipart_body(part("images", b"x" * 100, "cut"))[:-60],
        b"",
        b"no form at all, just bytes",
        multipart_body(b"--the-boundary\r\nContent Disposition\r\n\r\nx\r\n"),
        multipart_body(part("note", b"\xff\xfe")),
        multipart_body(part("note", b"one"), part("note", b"two")),
    ],
)
def test_what_is_no_whole_form_is_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read(tmp_path, body)


@pytest.mark.parametrize("content_type", ["", "application/json", "multipart/form-data", "multipart/mixed; boundary=x"])
def test_another_kind_of_body_is_refused_with_an_example(tmp_path: Path, content_type: str) -> None:
    async def run() -> None:
        async with receive_form(content_type, None, pieces(b"{}"), tmp_path, LIMITS):
            pass

    with pytest.raises(InvalidRequest, match="curl"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "body",
    [
        multipart_body(*(part("images", b"", f"{number}") for number in range(21))),
        multipart_body(part("note", b"x" * 300), part("other", b"x" * 300)),
    ],
)
def test_too_many_files_and_too_much_text_are_refused(tmp_path: Path, body: bytes) -> None:
    with pytest.raises(TooLarge):
        read(tmp_path, body)


def test_a_client_that_hangs_up_leaves_nothing(tmp_path: Path) -> None:
    class HungUp(Exception):
        pass

    async def cut_off() -> AsyncIterator[bytes]:
        yield part("images", b"x" * 900, "first")
        raise HungUp

    async def run() -> None:
        async with receive_form(CONTENT_TYPE, None, cut_off(), tmp_path, LIMITS):
            pass

    with pytest.raises(HungUp):
        asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_the_event_loop_stays_free_while_a_large_file_is_written(tmp_path: Path) -> None:
    limits = FormLimits(max_file_bytes=2**26, max_body_bytes=2**27, max_files=1)
    body = multipart_body(part("images", random.Random(0).randbytes(2**24), "large"))
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def one_piece() -> AsyncIterator[bytes]:
        yield body

    async def run() -> int:
        counting = asyncio.create_task(count())
        async with receive_form(CONTENT_TYPE, None, one_piece(), tmp_path, limits):
            counting.cancel()
            return turns

    # Once before the only piece is read, and many times while a thread hashes and writes its 16 MB.
    assert asyncio.run(run()) > 10


def test_the_event_loop_stays_free_while_a_request_that_was_cut_off_waits_for_its_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, disk_is_back = threading.Event(), threading.Event()

    def stall(self: MultipartReader, content: bytes) -> None:
        with self._busy:
            writing.set()
            disk_is_back.wait()

    async def upload() -> None:
        async with receive_form(CONTENT_TYPE, None, pieces(b"x"), tmp_path, LIMITS):
            pass

    async def run() -> None:
        task = asyncio.create_task(upload())
        await asyncio.to_thread(writing.wait)
        task.cancel()
        for _ in range(10):  # which would not come while the loop waits
            await asyncio.sleep(0)
        disk_is_back.set()
        await asyncio.wait([task])
        assert task.cancelled()

    monkeypatch.setattr(MultipartReader, "feed", stall)
    asyncio.run(run())
    assert list(tmp_path.iterdir()) == []


def test_its_files_are_removed_beside_the_event_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    removed_in: list[str] = []
    real = shutil.rmtree

    def remove(*given: Any, **named: Any) -> None:
        removed_in.append(threading.current_thread().name)
        real(*given, **named)

    monkeypatch.setattr(shutil, "rmtree", remove)
    read(tmp_path, multipart_body(part("images", b"x", "one")))
    assert len(removed_in) == 1
    assert threading.main_thread().name not in removed_in
    assert list(tmp_path.iterdir()) == []


def test_a_request_is_safe_from_a_worker_that_cleans_up(tmp_path: Path) -> None:
    async def run() -> bytes:
        body = pieces(multipart_body(part("images", b"x", "one")))
        async with receive_form(CONTENT_TYPE, None, body, tmp_path, LIMITS) as found:
            assert remove_abandoned(tmp_path) == 0
            return found.files[0].path.read_bytes()

    assert asyncio.run(run()) == b"x"


def extended(name: bytes, content: bytes = b"x") -> bytes:
    """A part whose file name is written as RFC 8187 says."""
    head = b'--the-boundary\r\nContent-Disposition: form-data; name="images"; ' + name
    return head + b"\r\n\r\n" + content + b"\r\n"


@pytest.mark.parametrize(
    ("written", "filename"),
    [
        (b"filename*=UTF-8''na%C3%AFve%20dog.jpg", "naïve dog.jpg"),
        (b"FileName*=utf-8'en'%F0%9F%90%95.png", "\N{DOG}.png"),
        (b"filename*=iso-8859-1''na%EFve.jpg", "naïve.jpg"),
        (b"filename*=''plain.jpg", "plain.jpg"),
        (b"filename*=UTF-8''%ff%fe.jpg", "\N{REPLACEMENT CHARACTER}" * 2 + ".jpg"),
        (b"filename=\"plain.jpg\"; filename*=UTF-8''other.jpg", "other.jpg"),
        (b"filename=\"plain.jpg\"; filename*=UTF-8''100%2522.jpg", "100%22.jpg"),
        (b"filename*=UTF-8''100%2522.jpg", "100%22.jpg"),
        (b"filename*=UTF-8''..%2F..%2Fup.jpg", "../../up.jpg"),
    ],
)
def test_a_name_in_the_extended_form_is_a_file_name(tmp_path: Path, written: bytes, filename: str) -> None:
    files, fields = read(tmp_path, multipart_body(extended(written)))
    assert files == [("images", filename, b"x", None)]
    assert fields == {}


def test_a_name_in_quotes_is_no_parameter(tmp_path: Path) -> None:
    body = b"--the-boundary\r\nContent-Disposition: form-data; name=\"a; filename*=UTF-8''b\"\r\n\r\nx\r\n"
    files, fields = read(tmp_path, multipart_body(body))
    assert files == []
    assert fields == {"a; filename*=UTF-8''b": "x"}


def test_a_quote_without_an_end_is_looked_at_once() -> None:
    """Tried from every quote inside it, it would take seconds for what one header may hold."""
    for text in (b'"' + b'\\"' * 1000, b'"' + b"\\\n" * 1000, b'"a\\', b'"'):
        assert [match.span() for match in QUOTED.finditer(text)] == [(0, len(text))]
    assert QUOTED.sub(b"", b'name="a"; filename="b\\"c"; x') == b"name=; filename=; x"


def test_a_form_of_endless_fields_is_cut_off(tmp_path: Path) -> None:
    few = FormLimits(max_file_bytes=1000, max_body_bytes=10**6, max_files=5, max_fields=3)
    assert len(read(tmp_path, multipart_body(*(part(str(n), b"") for n in range(3))), limits=few)[1]) == 3
    with pytest.raises(TooLarge, match="3 fields"):
        read(tmp_path, multipart_body(*(part(str(n), b"") for n in range(4))), limits=few)
    usual = FormLimits(max_file_bytes=1000, max_body_bytes=10**6, max_files=5)
    with pytest.raises(TooLarge, match="100 fields"):
        read(tmp_path, multipart_body(*(part(str(n), b"") for n in range(101))), limits=usual)


def test_a_name_of_endless_length_is_not_repeated_whole(tmp_path: Path) -> None:
    name = "n" * 5_000
    with pytest.raises(InvalidRequest) as refused:
        read(tmp_path, multipart_body(part(name, b"x"), part(name, b"y")))
    assert len(str(refused.value)) < 400


def test_a_block_whose_beginning_is_cut_off_is_ended() -> None:
    begins, ended = threading.Event(), list[int]()

    @contextmanager
    def block() -> Iterator[None]:
        begins.wait()
        yield
        ended.append(1)

    async def run() -> None:
        entering = asyncio.ensure_future(in_threads(block()).__aenter__())
        await asyncio.sleep(0)
        entering.cancel()
        begins.set()
        await asyncio.wait([entering])

    asyncio.run(run())
    assert ended
