"""Views: published rows are whole, readers follow the writer, a damaged tail is cut back and built again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from index.files import write_at
from index.views import slab as slabs
from index.views import view_manifest as manifest
from index.views.slab import Slab
from index.views.view import View
from index.views.view_manifest import NAME, NoView
from index.views.view_writer import ViewWriter
from tests.support.small_views import ABOUT, EMBED, build, captions, check, embedding_of, images


class Following(RuleBasedStateMachine):
    """A writer adds, replaces, cuts back and restarts; readers that refresh see what it published."""

    def __init__(self) -> None:
        super().__init__()
        self.temporary = TemporaryDirectory()
        self.folder = Path(self.temporary.name)
        self.writer = build(self.folder, 0, 0)
        self.reader = View(self.folder)

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

    @rule(row=st.integers(0, 20), between=st.booleans())
    def replace(self, row: int, between: bool) -> None:
        """Another picture in a row, and then its own again."""
        if row < self.writer.counts().images:
            self.writer.replace_images([row], *images(row + 1, row + 2))
            if between:
                self.reader.refresh()
            self.writer.replace_images([row], *images(row, row + 1))

    @rule()
    def restart_writer(self) -> None:
        before = self.writer.counts()
        self.writer.close()
        self.writer = ViewWriter(self.folder, **ABOUT)
        assert self.writer.counts() == before

    @rule()
    def refresh(self) -> None:
        self.reader.refresh()
        check(self.reader.snapshot(), *self.writer.counts())
        assert self.reader.refresh() is False

    @rule()
    def reopen(self) -> None:
        check(View(self.folder).snapshot(), *self.writer.counts())


TestFollowing = Following.TestCase
TestFollowing.settings = settings(max_examples=20, stateful_step_count=12, deadline=None)


def test_there_is_nothing_to_read_before_a_writer_came(tmp_path: Path) -> None:
    with pytest.raises(NoView, match="no view in"):
        View(tmp_path / "none")


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
    early = View(tmp_path)  # before the writer repaired it
    check(early.snapshot(), 9, 5)
    writer = ViewWriter(tmp_path, **ABOUT)
    assert writer.counts() == (9, 5)
    build(tmp_path, 14, 5)
    assert early.refresh()
    check(early.snapshot(), 14, 5)


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
    check(View(tmp_path).snapshot(), 3, 12)


@pytest.mark.parametrize("rows", [([4], []), ([], [4])])
def test_a_view_that_is_opened_while_a_row_is_blanked_takes_up_the_rest_afterwards(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[list[int], list[int]]
) -> None:
    writer = build(tmp_path, 9, 9)
    opened: list[View] = []

    def write(handle: int, content: memoryview, offset: int) -> None:
        if not opened:  # its zeros are written, its checksum is not
            opened.append(View(tmp_path))
            assert not opened[0].refresh()
        write_at(handle, content, offset)

    with monkeypatch.context() as patch:
        patch.setattr(slabs, "write_at", write)
        assert writer.stores.blank(*rows) == 1
    (view,) = opened
    assert view.snapshot().counts == (4 if rows[0] else 9, 4 if rows[1] else 9)
    assert view.refresh()
    assert view.snapshot().counts == (9, 9)
    assert view.snapshot().is_whole
    assert not view.refresh()


def test_rows_behind_a_damaged_one_wait_for_it_also_when_others_are_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = build(tmp_path, 12, 5)
    stored = tmp_path / "images" / "records.bin"
    content = stored.read_bytes()
    with stored.open("r+b") as file:
        file.seek(9 * 256)
        file.write(bytes(10))
    view = View(tmp_path)
    build_more(writer, 14)
    assert view.refresh()  # there is a new manifest
    check(view.snapshot(), 9, 5)
    checked, check_row = list[int](), Slab.check

    def noting(slab: Slab, row: int) -> None:
        checked.append(row)
        check_row(slab, row)

    with monkeypatch.context() as patch:
        patch.setattr(Slab, "check", noting)
        assert not view.refresh()
    assert checked == [9]  # and none of the others, as often as one looks
    with stored.open("r+b") as file:
        file.write(content[: 10 * 256])
    assert view.refresh()
    check(view.snapshot(), 14, 5)


def test_records_written_but_never_published_are_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = build(tmp_path, 4, 4)
    reader = View(tmp_path)

    def power_cut(_manifest: object, _folder: Path) -> None:
        raise OSError

    with monkeypatch.context() as patch:
        patch.setattr(manifest.Manifest, "save", power_cut)
        with pytest.raises(OSError):  # noqa: PT011
            writer.add_images(4, *images(90, 95))
    assert writer.counts() == (4, 4)
    assert not reader.refresh()
    check(reader.snapshot(), 4, 4)
    build(tmp_path, 6, 6)
    assert reader.refresh()
    check(reader.snapshot(), 6, 6)


@pytest.mark.parametrize(
    ("at", "rows", "words"),
    [(1, 2, "has 2 rows, the next cannot be 1"), (3, 2, "cannot be 3"), (2, 3, "rows of different number")],
)
def test_rows_that_leave_no_whole_view_are_refused(tmp_path: Path, at: int, rows: int, words: str) -> None:
    writer = build(tmp_path, 2, 2)
    adding: list[tuple[Callable[..., None], Any]] = [
        (writer.add_images, images(0, 2)),
        (writer.add_captions, captions(0, 2)),
    ]
    for add, (content, _) in adding:
        with pytest.raises(ValueError, match=words):
            add(at, content, np.zeros((rows, EMBED), np.float32))
    check(View(tmp_path).snapshot(), 2, 2)


def test_an_embedding_that_is_not_a_number_is_refused(tmp_path: Path) -> None:
    records, embeddings = images(0, 2)
    embeddings[1, 2] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        ViewWriter(tmp_path, **ABOUT).add_images(0, records, embeddings)
    assert View(tmp_path).snapshot().counts == (0, 0)


def test_wide_fields_have_single_precision_and_an_earlier_view_goes_on_without(tmp_path: Path) -> None:
    records, embeddings = images(0, 2)
    records["vectors"] = records["vectors"].astype(np.float32)
    records["vectors"][1, 1, 1] = 70000
    writer = ViewWriter(tmp_path / "new", **ABOUT, wide=["vectors"])
    assert writer.wide_fields == ["vectors", "hubness"]
    writer.add_images(0, records, embeddings)
    assert View(tmp_path / "new").snapshot().read_images([1])["vectors"][0, 1, 1] == 70000
    assert ViewWriter(tmp_path / "new", **ABOUT, wide=["vectors"]).counts() == (2, 0)
    build(tmp_path / "earlier", 3, 1).close()
    earlier = ViewWriter(tmp_path / "earlier", **ABOUT, wide=["vectors"])
    assert earlier.wide_fields == ["hubness"]
    earlier.add_images(3, *images(3, 5))
    check(View(tmp_path / "earlier").snapshot(), 5, 1)


def test_rows_are_replaced_where_they_are_and_readers_follow(tmp_path: Path) -> None:
    right, embeddings = images(0, 12)
    wrong = {name: array.copy() for name, array in right.items()}
    for array in (*wrong.values(), other := embeddings.copy()):
        array[[2, 9]] = 0
    writer = ViewWriter(tmp_path, **ABOUT)
    writer.add_images(0, wrong, other)
    view = View(tmp_path)
    assert not view.snapshot().read_images([9])["vectors"].any()
    writer.replace_images([9, 2], {name: array[[9, 2]] for name, array in right.items()}, embeddings[[9, 2]])
    assert view.refresh()
    check(view.snapshot(), 12, 0)
    check(View(tmp_path).snapshot(), 12, 0)


def test_no_row_is_replaced_that_is_not_there_or_not_whole(tmp_path: Path) -> None:
    writer = build(tmp_path, 2, 1)
    records, embeddings = images(0, 1)
    with pytest.raises(IndexError):
        writer.replace_images([2], records, embeddings)
    with pytest.raises(ValueError, match="different number"):
        writer.replace_images([0, 1], records, embeddings)
    with pytest.raises(ValueError, match="not finite"):
        writer.replace_images([1], records, embeddings * np.nan)
    check(View(tmp_path).snapshot(), 2, 1)


def test_what_was_shown_stays_shown_when_the_view_is_removed(tmp_path: Path) -> None:
    build(tmp_path, 2, 1)
    view = View(tmp_path)
    (tmp_path / NAME).unlink()
    with pytest.raises(NoView):
        view.refresh()
    check(view.snapshot(), 2, 1)


def test_searching_goes_on_while_rows_come_and_go(tmp_path: Path) -> None:
    writer = build(tmp_path, 3, 3)
    view = View(tmp_path)
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
            snapshot = view.snapshot()
            _, rows = snapshot.images.search(np.ones((1, EMBED), np.float32), 5)
            rows = rows[rows >= 0]
            np.testing.assert_array_equal(snapshot.read_images(rows)["vectors"], everything[rows])

    with ThreadPoolExecutor(4) as pool:
        for task in [pool.submit(write), *(pool.submit(read) for _ in range(3))]:
            task.result()
    view.refresh()
    assert view.snapshot().counts == (79, 3)


def build_more(writer: ViewWriter, count: int) -> None:
    at = writer.counts().images
    writer.add_images(at, *images(at, count))


def write_again(writer: ViewWriter) -> None:
    writer.cut_back(1, 0)
    build_more(writer, 12)


DISTURBANCES: dict[str, Callable[[ViewWriter], None]] = {
    "rows are added": lambda writer: build_more(writer, writer.counts().images + 5),
    "a row is replaced by itself": lambda writer: writer.replace_images([3], *images(3, 4)),
    "rows are cut back": lambda writer: writer.cut_back(1, 0),
    "all rows are cut back": lambda writer: writer.cut_back(0, 0),
    "rows are cut back and written again": write_again,
}


@pytest.mark.parametrize("disturbance", DISTURBANCES)
@pytest.mark.parametrize("moment", range(5))
def test_a_query_sees_one_state_whatever_is_refreshed_between_its_steps(
    tmp_path: Path, moment: int, disturbance: str
) -> None:
    """A query's steps, with a change of the view and a refresh before the step number `moment`."""
    writer, view = build(tmp_path, 9, 4), View(tmp_path)
    snapshot = view.snapshot()
    found: dict[str, Any] = {}

    def search() -> None:
        found["rows"] = snapshot.images.search(np.ones((1, EMBED), np.float32), 9)[1][0]

    steps: list[Callable[[], None]] = [
        lambda: found.update(counts=snapshot.counts),
        search,
        lambda: found.update(records=snapshot.read_images(found["rows"])),
        lambda: found.update(words=snapshot.read_captions(range(4))),
        lambda: found.update(embedding=embedding_of(snapshot, 8)),
    ]
    for number, step in enumerate(steps):
        if number == moment:
            DISTURBANCES[disturbance](writer)
            assert view.refresh()
        step()
    assert found["counts"] == (9, 4)
    assert sorted(found["rows"]) == list(range(9))
    expected, embeddings = images(0, 9)
    np.testing.assert_array_equal(found["records"]["vectors"], expected["vectors"][found["rows"]])
    np.testing.assert_array_equal(found["embedding"], embeddings[8])
    assert [len(words) for words in found["words"]] == [len(words) for words in captions(0, 4)[0]]
