"""What is wrong on the disk is found, whatever file it is in, and said in words."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from service.chaos.stored import confirmed_damage, stored_findings
from service.storage.verification import find_damage
from tests.support.pictures import encoded
from tests.support.worker_store import COLOURS, Store, noise

NUM = 4
REGIONS, VIEW = "regions/records.bin", "views/fake-matcher"
FILES = [
    REGIONS,
    "regions/header.json",
    f"{VIEW}/manifest.json",
    *(f"{VIEW}/{part}/records.bin" for part in ("images", "image_embeddings", "caption_embeddings")),
    *(f"{VIEW}/{part}/header.json" for part in ("images", "image_embeddings", "caption_embeddings")),
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    store = Store(folder)
    for seed in range(NUM):
        store.accept(encoded(noise(seed), "PNG"), captions=[COLOURS[seed]])
    store.drain()
    store.catalog.close()
    return folder


@pytest.fixture
def data(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "data"))


def finding_lines(data: Path) -> list[str]:
    """Everything found, as lines; all of it is of the kind half."""
    findings = list(stored_findings(data))
    assert {finding.kind for finding in findings} <= {"half"}
    return [str(finding) for finding in findings]


def test_where_nothing_is_wrong_nothing_is_found(data: Path) -> None:
    assert finding_lines(data) == []
    assert confirmed_damage(data) == []


def an_original(data: Path) -> Path:
    return next(path for path in sorted((data / "originals").rglob("*.png")))


def lose_an_original(data: Path) -> str:
    an_original(data).unlink()
    return "send the file again"


def change_an_original(data: Path) -> str:
    with an_original(data).open("ab") as file:
        file.write(b"!")
    return "not the bytes that were taken in"


def lose_a_thumbnail(data: Path) -> str:
    next(path for path in sorted((data / "thumbnails").rglob("*.jpg"))).unlink()
    return "the thumbnail of a picture that is ready is missing"


def lose_a_record(data: Path) -> str:
    records = data / REGIONS
    records.write_bytes(records.read_bytes()[: records.stat().st_size * (NUM - 1) // NUM])
    return f"row {NUM - 1} is missing"


def zero_a_record(data: Path) -> str:
    records = data / REGIONS
    content, size = records.read_bytes(), records.stat().st_size // NUM
    records.write_bytes(content[:size] + bytes(size) + content[2 * size :])
    return "row 1 does not match its checksum"


def cut_a_tail(data: Path) -> str:
    records = data / REGIONS
    records.write_bytes(records.read_bytes()[:-1])
    return f"row {NUM - 1} is missing"


def lose_all_regions(data: Path) -> str:
    shutil.rmtree(data / "regions")
    return f"{NUM} region records are missing"


def lose_a_row_of_a_view(data: Path) -> str:
    manifest = data / VIEW / "manifest.json"
    manifest.write_text(manifest.read_text().replace(f'"images": {NUM}', f'"images": {NUM - 1}'))
    return f"it holds {NUM - 1} pictures"


def lose_the_words_of_a_view(data: Path) -> str:
    for path in (data / VIEW / "captions").glob("*.bin"):
        path.write_bytes(bytes(path.stat().st_size))
    return "row 0"


def damage_the_catalog(data: Path) -> str:
    for path in data.glob("catalog.sqlite*"):
        path.write_bytes(b"no catalog" * 1000)
    return "is damaged"


@pytest.mark.parametrize(
    "plant",
    [
        lose_an_original,
        change_an_original,
        lose_a_thumbnail,
        lose_a_record,
        zero_a_record,
        cut_a_tail,
        lose_all_regions,
        lose_a_row_of_a_view,
        lose_the_words_of_a_view,
        damage_the_catalog,
    ],
)
def test_a_planted_fault_is_found_and_said_in_words(data: Path, plant: Callable[[Path], str]) -> None:
    words = plant(data)
    lines = finding_lines(data)
    assert any(words in line for line in lines), lines
    assert all(len(line) > 20 and "Traceback" not in line for line in lines)


@pytest.mark.parametrize("how", ["zeroed", "truncated", "emptied"])
@pytest.mark.parametrize("name", FILES)
def test_a_damaged_tail_of_any_file_is_said_and_the_other_files_are_read(data: Path, name: str, how: str) -> None:
    path = data / name
    content = path.read_bytes()
    kept = {"zeroed": len(content) * 3 // 4, "truncated": len(content) * 3 // 4, "emptied": 0}[how]
    path.write_bytes(content[:kept] + (bytes(len(content) - kept) if how == "zeroed" else b""))
    original = lose_an_original(data)
    lines = list(find_damage(data))
    assert any(name.split("/", maxsplit=1)[0] in line and original not in line for line in lines), lines
    assert any(original in line for line in lines), lines


@pytest.fixture
def mended(data: Path) -> Iterator[Store]:
    store = Store(data)
    yield store
    store.catalog.close()


@pytest.mark.parametrize("name", [name for name in FILES if name.startswith(VIEW) or name == REGIONS])
def test_a_worker_makes_whole_again_what_it_can(mended: Store, name: str) -> None:
    path = mended.folder / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    if path.suffix == ".json":
        shutil.rmtree(mended.folder / VIEW)  # as `regard doctor --verify` says
    mended.drain()
    assert finding_lines(mended.folder) == []
    mended.check({image.image_id: noise(seed) for seed, image in enumerate(mended.catalog.list_images(None, NUM))})
