"""Files that are no pictures get a reason, and no file harms what is decoded after it."""

import contextlib
import errno
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import PIL.Image
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index import files
from service.media.decode_messages import DecodedParts, DecodedPixels
from service.media.decode_pool import DecodeFailed, DecodePool, ErasedMeanwhile
from service.media.decode_process import DecodeLimits, DecodeProcess, NoDecoder
from service.this_machine import children_of, is_running
from tests.support.pictures import claiming_size, corners, encoded, heic_corners, huge_png
from tests.support.power_cut import Disk
from tests.support.processes import wait_until

LIMITS = DecodeLimits(timeout_s=60.0, memory_bytes=2**31, max_pixels=80_000_000, inspect_s=60.0)


@pytest.fixture(scope="module")
def pool() -> Iterator[DecodePool]:
    with DecodePool(1, LIMITS) as shared:
        yield shared


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "HEIF"])
def test_a_file_cut_short_is_refused_at_once_with_a_reason(pool: DecodePool, tmp_path: Path, kind: str) -> None:
    noise = PIL.Image.frombytes("RGB", (64, 64), random.Random(1).randbytes(64 * 64 * 3))
    whole = heic_corners() if kind == "HEIF" else encoded(noise, kind)
    file = tmp_path / "cut"
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DecodeFailed) as failed:
        pool.decode(file)
    assert failed.value.final
    assert "upload a complete copy" in failed.value.reason


@pytest.mark.parametrize("size", [(70_000, 3), (3, 70_000)])
def test_a_picture_longer_than_a_jpeg_can_be_is_shown_smaller(
    pool: DecodePool, tmp_path: Path, size: tuple[int, int]
) -> None:
    path = tmp_path / "panorama.tif"
    PIL.Image.new("RGB", size, "red").save(path, "TIFF")
    shown = pool.strip(path, tmp_path / "shown.tif")
    with PIL.Image.open(shown) as picture:
        assert max(picture.size) == 65_500
        assert min(picture.size) == 3


def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    file = tmp_path / "bomb.png"
    file.write_bytes(huge_png(20_000, 20_000))
    # Twelve times too little memory for its pixels: decoding it would fail in another way.
    with DecodePool(1, DecodeLimits(timeout_s=20, memory_bytes=2**28, max_pixels=80_000_000)) as small:
        with pytest.raises(DecodeFailed, match="has 20000 x 20000 pixels, more than 80 megapixels") as failed:
            small.decode(file)
        assert failed.value.final


@pytest.mark.parametrize("kind", ["HEIF", "AVIF"])
def test_a_phones_picture_that_claims_another_size_than_it_has_stays_within_limits(tmp_path: Path, kind: str) -> None:
    whole = heic_corners() if kind == "HEIF" else encoded(corners(), kind)
    file = tmp_path / "bomb"
    with DecodePool(1, DecodeLimits(timeout_s=20, memory_bytes=2**29, max_pixels=80_000_000)) as small:
        file.write_bytes(claiming_size(whole, 12_000, 8_000))
        with pytest.raises(DecodeFailed, match="has 12000 x 8000 pixels, more than 80 megapixels"):
            small.decode(file)
        for claimed in (4_000, 3_000), (8, 8):  # libavif scales, libheif refuses
            file.write_bytes(claiming_size(whole, *claimed))
            with contextlib.suppress(DecodeFailed):
                found = small.decode(file)
                assert (found.width, found.height) == claimed
        file.write_bytes(whole)
        assert small.decode(file).picture.mode == "RGB"


def test_a_picture_that_needs_too_much_memory_is_worth_another_try(tmp_path: Path) -> None:
    file = tmp_path / "large.png"
    file.write_bytes(huge_png(8_000, 9_000))
    with DecodePool(1, DecodeLimits(timeout_s=20, memory_bytes=2**28, max_pixels=80_000_000)) as small:
        with pytest.raises(DecodeFailed, match="memory") as failed:
            small.decode(file)
        assert not failed.value.final
        file.write_bytes(encoded(corners(), "PNG"))
        assert small.decode(file).width == 60


def test_a_missing_file_is_worth_another_try(pool: DecodePool, tmp_path: Path) -> None:
    with pytest.raises(DecodeFailed, match="cannot be read") as failed:
        pool.decode(tmp_path / "nowhere")
    assert not failed.value.final


KINDS = ("JPEG", "PNG", "WEBP", "BMP", "TIFF", "GIF", "AVIF", "HEIF")


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kind=st.sampled_from(KINDS), flips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=8))
def test_any_damage_gives_a_picture_or_a_reason(
    pool: DecodePool, tmp_path: Path, kind: str, flips: list[tuple[int, int]]
) -> None:
    whole = heic_corners() if kind == "HEIF" else encoded(corners(), kind)
    content = bytearray(whole)
    for place, bits in flips:
        content[place % len(content)] ^= bits
    file = tmp_path / "damaged"
    file.write_bytes(content)
    with contextlib.suppress(DecodeFailed):
        assert pool.decode(file).picture.mode == "RGB"
    file.write_bytes(whole)
    assert pool.decode(file).width == (120 if kind == "HEIF" else 60)


def test_the_reply_to_a_request_that_failed_is_not_taken_for_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    small, large = tmp_path / "small.jpg", tmp_path / "large.jpg"
    small.write_bytes(encoded(corners(), "JPEG"))
    large.write_bytes(encoded(corners().resize((120, 80)), "JPEG"))
    with DecodePool(1, LIMITS) as pool:
        pool.decode(small)
        with monkeypatch.context() as patched:
            patched.setattr(DecodeProcess, "_exactly", out_of_memory)
            with pytest.raises(MemoryError):
                pool.decode(large)
        assert pool.decode(small).width == 60


def out_of_memory(*_: object) -> None:
    raise MemoryError


@pytest.mark.slow
def test_a_decoder_that_hangs_is_ended_and_replaced(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe.jpg", tmp_path / "picture.jpg"
    os.mkfifo(pipe)  # opening it waits for a writer that never comes
    file.write_bytes(encoded(corners(), "JPEG"))
    with DecodePool(1, DecodeLimits(timeout_s=2, memory_bytes=2**31, max_pixels=10**6)) as impatient:
        with pytest.raises(DecodeFailed, match="longer than 2 s") as failed:
            impatient.decode(pipe)
        assert not failed.value.final
        impatient._limits = LIMITS  # a machine that stalls for two seconds is not what is tried here
        assert impatient.decode(file).width == 60


def test_a_decoder_that_dies_is_replaced(tmp_path: Path) -> None:
    pipe, file = tmp_path / "pipe.jpg", tmp_path / "picture.jpg"
    os.mkfifo(pipe)
    file.write_bytes(encoded(corners(), "JPEG"))
    before = set(children_of(os.getpid()))
    with DecodePool(1, LIMITS) as fresh:
        fresh.decode(file)
        (decoder,) = set(children_of(os.getpid())) - before
        waiting = fresh.submit(pipe)
        with pipe.open("wb"):  # once the decoder has opened it, too
            os.kill(decoder, signal.SIGKILL)
            with pytest.raises(DecodeFailed, match="signal 9") as failed:
                waiting.result()
        assert not failed.value.final
        assert fresh.decode(file).width == 60


@pytest.mark.slow
def test_the_decoders_end_with_the_process_that_wanted_them(tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(encoded(corners(), "JPEG"))
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom service.media.decode_pool import DecodeLimits, DecodePool\n"
        "pool = DecodePool(1, DecodeLimits(timeout_s=20, memory_bytes=2**31, max_pixels=10**6))\n"
        "pool.decode(Path(sys.argv[1]))\nprint('decoded', flush=True)\ntime.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program, str(file)], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"decoded\n"
        (child,) = children_of(parent.pid)
        parent.kill()
    wait_until(lambda: not is_running(child))  # whether or not somebody counts it


def test_a_decoder_imports_nothing_heavy() -> None:
    program = (
        "import sys, service.media.decode_worker; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert not {"torch", "numpy", "fastapi", "pydantic", "faiss", "redis"} & set(done.stdout.split())


MAKING = {
    "a thumbnail": lambda pool, file, made: pool.decode(file, made / "thumbnail.jpg"),
    "a thumbnail alone": lambda pool, file, made: pool.make_thumbnail(file, made / "thumbnail.jpg"),
    "a file to show": lambda pool, file, made: pool.decode(file, stripped=made / "stripped.png"),
    "a file to show alone": lambda pool, file, made: pool.strip(file, made / "stripped.png"),
}


@pytest.mark.parametrize("what", MAKING)
def test_nothing_is_left_that_was_made_of_a_picture_erased_meanwhile(
    pool: DecodePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    file, made = tmp_path / "picture.png", tmp_path / "made"
    file.write_bytes(encoded(corners(), "PNG"))

    def erase(*_: object) -> bool:
        file.unlink()
        return True

    for form in (DecodedParts, DecodedPixels):
        monkeypatch.setattr(form, "fits", erase)  # between reading and writing
    with pytest.raises(ErasedMeanwhile, match="deleted meanwhile"):
        MAKING[what](pool, file, made)
    assert list(made.iterdir()) == []


@pytest.mark.parametrize("what", MAKING)
def test_a_file_has_its_bytes_on_the_disk_before_its_name(
    pool: DecodePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    file = disk.folder / "picture.png"
    file.write_bytes(encoded(corners(), "PNG") + b"more")
    MAKING[what](pool, file, disk.folder / "made")
    (made,) = (disk.folder / "made").iterdir()
    assert disk.content[made.stat().st_ino] == made.read_bytes()


@pytest.mark.parametrize(
    ("end", "can_link", "links"), [(b"\x82", True, 2), (b"\x82more", True, 1), (b"?", True, 1), (b"\x82", False, 1)]
)
def test_a_file_to_show_that_is_the_original_takes_no_room(
    pool: DecodePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: bytes, can_link: bool, links: int
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if not can_link:
        monkeypatch.setattr(os, "link", refuse)
    file, content = tmp_path / "picture.png", encoded(corners(), "PNG")
    file.write_bytes(content[:-1] + end)
    shown = pool.strip(file, tmp_path / "made" / "shown.png")
    assert (shown.read_bytes(), shown.stat().st_nlink) == (content, links)


def test_a_thumbnail_made_alone_is_the_one_made_with_the_picture(pool: DecodePool, tmp_path: Path) -> None:
    file = tmp_path / "picture.jpg"
    file.write_bytes(encoded(corners(3000, 2000), "JPEG"))
    pool.decode(file, tmp_path / "together.jpg")
    pool.make_thumbnail(file, tmp_path / "alone.jpg")
    assert (tmp_path / "alone.jpg").read_bytes() == (tmp_path / "together.jpg").read_bytes()


def test_a_picture_is_there_without_files_that_cannot_be_written(
    pool: DecodePool, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(encoded(corners(), "PNG"))
    found = pool.decode(file, file / "below-a-file.jpg", file / "below-a-file.png")
    assert (found.width, found.height) == corners().size
    assert ["the thumbnail" in caplog.text, "the file to show" in caplog.text] == [True, True]
    for make in pool.make_thumbnail, pool.strip:
        with pytest.raises(OSError, match="cannot be written"):
            make(file, file / "below-a-file.png")


def test_a_full_disk_is_not_the_pictures_fault(
    pool: DecodePool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "picture.png"
    file.write_bytes(encoded(corners(), "PNG"))

    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files, "reach", full)
    with pytest.raises(OSError, match="thumbnail"):
        pool.decode(file, tmp_path / "thumbnail.jpg")


def test_who_comes_to_a_closed_pool_is_told_and_does_not_wait(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_bytes(encoded(corners(), "PNG"))
    pool = DecodePool(1, LIMITS)
    refused: list[NoDecoder] = []

    def look_on() -> None:
        try:
            while pool.inspect(path):
                looked.set()
        except NoDecoder as fault:
            refused.append(fault)

    looked, threads = threading.Event(), [threading.Thread(target=look_on, daemon=True) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert looked.wait(60)
    pool.close()
    for thread in threads:
        thread.join(60)
    assert len(refused) == 3
    with pytest.raises(NoDecoder, match="have ended"):
        pool.protection()
    pool.close()
