"""Bottom-up TSVs become feature folders."""

import base64
from pathlib import Path

import numpy as np
import pytest

from models.datasets.bottom_up_tsv import SIX_COLUMNS, convert_tsv
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import CaptionLine
from models.datasets.feature_store import open_features


def coded(array: np.ndarray) -> str:
    return base64.b64encode(array.tobytes()).decode()


def regions(num: int, seed: int, dim: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Boxes and features of a picture."""
    random = np.random.default_rng(seed)
    return random.random((num, 4), dtype=np.float32), random.random((num, dim), dtype=np.float32)


def six(name: str, num: int, seed: int = 0, dim: int = 4) -> str:
    """A line of the authors' layout."""
    boxes, vectors = regions(num, seed, dim)
    return "\t".join([name, "640", "480", str(num), coded(boxes), coded(vectors)]) + "\n"


def ten(name: str, num: int, objects: list[int]) -> str:
    """A line of LXMERT's layout."""
    boxes, vectors = regions(num, 0)
    shown = np.array(objects, np.int64)
    sure = np.linspace(1, 0.5, len(objects), dtype=np.float32)
    columns = [name, "480", "640", coded(shown), coded(sure), coded(shown), coded(sure)]
    return "\t".join([*columns, str(num), coded(boxes), coded(vectors)]) + "\n"


@pytest.mark.realdata
def test_the_published_sample_converts_with_its_labels(data_dir: Path, tmp_path: Path) -> None:
    sample = data_dir / "butd-sample"
    objects = sample / "genome" / "1600-400-20" / "objects_vocab.txt"
    assert list(convert_tsv([sample / "train2014_obj36.tsv"], tmp_path, objects=objects, batch=4)) == [4, 8, 10]
    found = open_features(tmp_path)
    assert found.features.shape == (10, 36, 2048)
    assert found.mask.all()
    assert found.digest == "bottom-up-36"
    for name in found.ids:
        assert (sample / "images" / f"{name}.jpg").is_file()
    assert (found.features >= 0).all()  # after a ReLU
    assert (found.boxes[..., 2:] > found.boxes[..., :2]).all()
    labels = objects.read_text().split("\n")
    assert [labels[index] for index in found.labels[0, :5]] == ["sky", "tree", "tree", "tree", "field"]


def test_six_columns_of_several_files_become_padded_arrays(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("11", 2, seed=1) + six("12", 3, seed=2))
    (tmp_path / "b.tsv").write_text(six("11", 1, seed=9) + six("13", 1, seed=3))
    list(convert_tsv([tmp_path / "a.tsv", tmp_path / "b.tsv"], tmp_path / "out", num_regions=3, extractor="mine"))
    found = open_features(tmp_path / "out")
    assert found.ids == ("11", "12", "13")  # the first time counts
    assert found.digest == "mine"
    assert found.mask.sum(1).tolist() == [2, 3, 1]
    for row, (num, seed) in enumerate([(2, 1), (3, 2), (1, 3)]):
        boxes, vectors = regions(num, seed)
        assert np.array_equal(found.boxes[row, :num], boxes)
        assert np.array_equal(found.features[row, :num], vectors.astype(np.float16))
        assert not found.features[row, num:].any()
    joined = CaptionedFeatures.join(found, [CaptionLine("13", ("one",)), CaptionLine("12", ("two",))])
    assert joined.regions([0, 1]).mask.tolist() == [[True, False, False], [True, True, True]]


def test_ten_columns_say_what_is_seen(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(ten("x", 2, [1, 0]))
    (tmp_path / "objects.txt").write_text("dog,hound\ncat")
    list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out", num_regions=2, objects=tmp_path / "objects.txt"))
    found = open_features(tmp_path / "out")
    assert found.labels.tolist() == [[1, 0]]
    assert found.confidence.tolist() == [[1, 0.5]]
    assert '"dog",\n  "cat"' in (tmp_path / "out" / "manifest.json").read_text().replace("    ", "  ")


def test_a_killed_conversion_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("".join(six(str(n), 2, seed=n) for n in range(5)))
    for _ in convert_tsv([tmp_path / "a.tsv"], tmp_path / "cut", num_regions=2, batch=2):
        break  # as a kill after the first batch leaves it
    assert list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "cut", num_regions=2, batch=2)) == [4, 5]
    list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "whole", num_regions=2))
    assert np.array_equal(open_features(tmp_path / "cut").features, open_features(tmp_path / "whole").features)
    (tmp_path / "b.tsv").write_text(six("9", 1))
    assert list(convert_tsv([tmp_path / "a.tsv", tmp_path / "b.tsv"], tmp_path / "cut", num_regions=2)) == [6]
    assert np.array_equal(open_features(tmp_path / "cut").features[:5], open_features(tmp_path / "whole").features)
    with pytest.raises(ValueError, match="the same pictures in another order"):
        list(convert_tsv([tmp_path / "b.tsv", tmp_path / "a.tsv"], tmp_path / "cut", num_regions=2))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (six("a", 2) + "a\tb\tc\n", r"a\.tsv:2: 3 columns, where a bottom-up TSV has 6 or 10"),
        (six("a", 2).replace("\t2\t", "\t3\t"), r"a\.tsv:1: 3 boxes are told, and there are 2, with 8 numbers"),
        (six("a", 2).replace("\t640\t480\t2\t", "\t640\t480\ttwo\t"), r"a\.tsv:1: invalid literal"),
        (six("a", 2)[:-9] + "%%%\n", r"a\.tsv:1: "),
        (ten("a", 2, [1]), r"a\.tsv:1: objects differ in number"),
        (six("a", 2) + six("b", 0), r"a\.tsv:2: b has no boxes, and so no score: leave its line out"),
        (ten("a", 0, []), r"a\.tsv:1: a has no boxes"),
        (six("b", 0).replace("\t0\t", "\t00\t"), r"a\.tsv:1: b has no boxes"),
        (six("a", 2) + six("b", 37), "b has 37 boxes, and there is room for 36"),
        (six("a", 2) + six("b", 2, dim=5), "b has features of 5, not 4"),
        (ten("a", 2, [1, 1600]), "a has an object that is none of the 1600 named"),
        ("\t".join(SIX_COLUMNS) + "\n" + six("a", 2), r"a\.tsv:1: this line names the columns"),
        ("", "no picture in"),
    ],
)
def test_a_file_that_is_something_else_is_refused_by_its_line(lines: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(lines)
    with pytest.raises(ValueError, match=message):
        list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out"))


def test_a_folder_begun_with_room_for_others_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text(six("a", 3))
    with pytest.raises(ValueError, match="room for 2: ask for more regions"):
        list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out", num_regions=2))  # and none is held yet
    list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out", num_regions=4))
    assert open_features(tmp_path / "out").mask.tolist() == [[True, True, True, False]]
    with pytest.raises(ValueError, match="was begun with room for 4 regions, not 5"):
        list(convert_tsv([tmp_path / "a.tsv"], tmp_path / "out", num_regions=5))
