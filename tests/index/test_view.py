"""Views: published rows are whole, readers follow the writer, a damaged tail is cut back and built again."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from index import view_manifest as manifest
from index.view import NoView, View, ViewWriter
from index.view_manifest import NAME
from tests.support.small_views import ABOUT, EMBED, build, captions, check, images


class Following(RuleBasedStateMachine):
    """A writer adds, cuts back and restarts; readers that refresh see what it published."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.writer = build(self.folder, 0, 0)
        self.reader = View.open(self.folder)

    def teardown(self) -> None:
        self.temporary.cleanup()

    @rule(num_images=st.integers(0, 9), num_captions=st.integers(0, 9))
    def add(self, num_images: int, num_captions: int) -> None:
        at = self.writer.counts()
        self.writer.add_images(at.images, *images(at.images, at.images + num_images))
        self.writer.add_captions(at.captions, *captions(at.captions, at.captions + num_captions))

    @rule(images_kept=st.floats(0, 1), captions_kept=st.floats(0, 1))
    def cut_back(self, images_kept: float, captions_kept: float) -> None:
        at = self.writer.counts()
        self.writer.cut_back(round(images_kept * at.images), round(captions_kept * at.captions))

    @rule()
    def restart_writer(self) -> None:
        before = self.writer.counts()
        self.writer.close()
        self.writer = ViewWriter(self.folder, **ABOUT)
        assert self.writer.counts() == before

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        check(self.reader, *self.writer.counts())
        assert self.reader.refresh() is False

    @rule()
    def reopen(self) -> None:
        check(View.open(self.folder), *self.writer.counts())


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


def test_there_is_nothing_to_read_before_a_writer_came(tmp_path: Path) -> None:
    with pytest.raises(NoView, match="no view in"):
        View.open(tmp_path / "none")


@pytest.mark.parametrize(("file", "row_bytes"), [("images", 256), ("image_embeddings", 128)])
@pytest.mark.parametrize("damage", ["cut", "zeros"])
def test_a_damaged_tail_of_images_is_cut_back_and_built_again(
    tmp_path: Path, file: str, row_bytes: int, damage: str
) -> None:
    build(tmp_path, 12, 5).close()
    stored = tmp_path / file / "records.bin"
    assert stored.stat().st_size == 12 * row_bytes
    content = stored.read_bytes()
    left = content[: 9 * row_bytes + 10]  # row 9 is torn
    stored.write_bytes(left if damage == "cut" else left.ljust(len(content), b"\0"))
    early = View.open(tmp_path)  # before the writer repaired it
    check(early, 9, 5)
    writer = ViewWriter(tmp_path, **ABOUT)
    assert writer.counts() == (9, 5)
    build(tmp_path, 14, 5)
    assert early.refresh()
    check(early, 14, 5)


@pytest.mark.parametrize("file", ["captions/records.bin", "captions/words.bin", "caption_embeddings/records.bin"])
def test_a_damaged_tail_of_captions_is_cut_back_and_built_again(tmp_path: Path, file: str) -> None:
    build(tmp_path, 3, 12).close()
    stored = tmp_path / file
    content = stored.read_bytes()
    stored.write_bytes(content[: len(content) * 3 // 4].ljust(len(content), b"\0"))
    writer = ViewWriter(tmp_path, **ABOUT)
    assert writer.counts() == (3, 9)
    writer.close()
    build(tmp_path, 3, 12)
    check(View.open(tmp_path), 3, 12)


def test_records_written_but_never_published_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = build(tmp_path, 4, 4)
    reader = View.open(tmp_path)

    def power_cut(_manifest: object, _folder: Path) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(manifest.Manifest, "save", power_cut)
        with pytest.raises(OSError):  # noqa: PT011
            writer.add_images(4, *images(90, 95))
    assert writer.counts() == (4, 4)
    assert not reader.refresh()
    check(reader, 4, 4)
    build(tmp_path, 6, 6)
    assert reader.refresh()
    check(reader, 6, 6)


@pytest.mark.parametrize(
    ("at", "rows", "words"),
    [(1, 2, "has 2 rows, the next cannot be 1"), (3, 2, "cannot be 3"), (2, 3, "rows of different number")],
)
def test_rows_that_leave_no_whole_view_are_refused(tmp_path: Path, at: int, rows: int, words: str) -> None:
    writer = build(tmp_path, 2, 2)
    for add, (content, _) in ((writer.add_images, images(0, 2)), (writer.add_captions, captions(0, 2))):
        with pytest.raises(ValueError, match=words):
            add(at, content, np.zeros((rows, EMBED), np.float32))  # type: ignore[operator]
    check(View.open(tmp_path), 2, 2)


def test_an_embedding_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    records, embeddings = images(0, 2)
    embeddings[1, 2] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        ViewWriter(tmp_path, **ABOUT).add_images(0, records, embeddings)
    assert View.open(tmp_path).counts == (0, 0)


def test_what_was_shown_stays_shown_when_the_view_is_removed(tmp_path: Path) -> None:
    build(tmp_path, 2, 1)
    view = View.open(tmp_path)
    (tmp_path / NAME).unlink()
    with pytest.raises(NoView):
        view.refresh()
    check(view, 2, 1)


def test_searching_goes_on_while_rows_come_and_go(tmp_path: Path) -> None:
    writer = build(tmp_path, 3, 3)
    view = View.open(tmp_path)
    everything = images(0, 80)[0]["vectors"]

    def write() -> None:
        for count in range(4, 80, 3):
            build_more(writer, count)
            if count % 20 == 0:
                writer.cut_back(count // 2, 3)
                build_more(writer, count)

    def read() -> None:
        for _ in range(60):
            view.refresh()
            _, rows = view.images.search(np.ones((1, EMBED), np.float32), 5)
            rows = rows[rows >= 0]
            if rows.max() < view.counts.images:  # else another thread has just seen the cut
                np.testing.assert_array_equal(view.read_images(rows)["vectors"], everything[rows])

    with ThreadPoolExecutor(4) as pool:
        for task in [pool.submit(write), *(pool.submit(read) for _ in range(3))]:
            task.result()
    view.refresh()
    assert view.counts == (79, 3)


def build_more(writer: ViewWriter, count: int) -> None:
    at = writer.counts().images
    writer.add_images(at, *images(at, count))
