"""Near duplicates in answers: every picture once, shown or named by the one shown, and nothing else changed."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.errors import InvalidRequest
from service.search.near_duplicates import MOST_BITS, grouped
from service.search.requests import ImageSearchRequest
from service.search.results import RankedPicture, SearchResult
from tests.support.library import Library, image_id_of, two_coloured

SCENES = ["red", "green", "blue", "yellow"]


def hit(number: int, looks: bytes | None) -> RankedPicture:
    return RankedPicture(
        image_id=f"{number}",
        filename=f"{number}.jpg",
        extension="jpg",
        num_bytes=1,
        state="ready",
        slot=number,
        width=1,
        height=1,
        extractor=None,
        taken_at=None,
        added_at=0.0,
        deleted_at=None,
        captions=(),
        tags={},
        perceptual_hash=looks,
        score=-float(number),
        shortlist_rank=number + 1,
    )


def bits(one: bytes, other: bytes) -> int:
    return sum((a ^ b).bit_count() for a, b in zip(one, other, strict=True))


NEAR = st.lists(st.integers(0, 63), max_size=6).map(lambda flipped: sum({1 << bit for bit in flipped}))
LOOKS = st.one_of(st.none(), st.just(b""), st.builds(lambda base, near: (base ^ near).to_bytes(8), st.just(7), NEAR))


@given(looks=st.lists(LOOKS, max_size=25), k=st.integers(1, 10))
def test_every_hit_is_shown_or_named_once(looks: Sequence[bytes | None], k: int) -> None:
    hits = [hit(n, one) for n, one in enumerate(looks)]
    shown = grouped(hits, k)
    assert len(shown) <= k
    order = [int(one.image_id) for one in shown]
    assert order == sorted(order)
    named = [int(other.image_id) for one in shown for other in one.near_duplicates or ()]
    assert len({*order, *named}) == len(order) + len(named)
    for one in shown:
        assert one.near_duplicates is not None
        for other in one.near_duplicates:
            assert one.perceptual_hash
            assert other.image.perceptual_hash
            assert other.bits == bits(one.perceptual_hash, other.image.perceptual_hash) <= MOST_BITS
            assert int(other.image_id) > int(one.image_id)
    known = [one.perceptual_hash for one in shown if one.perceptual_hash]
    assert all(bits(a, b) > MOST_BITS for n, a in enumerate(known) for b in known[:n])
    everything = grouped(hits, len(hits) or 1)
    assert sum(1 + len(one.near_duplicates or ()) for one in everything) == len(hits)


@pytest.fixture(scope="module")
def shots(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """Four scenes, each shot three times."""
    library = Library(tmp_path_factory.mktemp("shots"))
    chance = random.Random(1)
    for scene in SCENES:
        base = chance.getrandbits(64)
        for shot in range(3):
            name = f"{scene} {shot}"
            library.add(name, two_coloured(scene, scene), view=False)
            library.catalog.hashes.add({image_id_of(name): (base ^ shot).to_bytes(8)})
    library.catch_up()
    yield library
    library.close()


def names(outcome: SearchResult[Any]) -> list[list[str]]:
    return [sorted([hit.filename, *(one.filename for one in hit.near_duplicates)]) for hit in outcome.results]


@pytest.mark.parametrize("match", ["pictures", "text", "both"])
def test_shots_of_one_scene_are_one_result(shots: Library, match: str) -> None:
    alone = shots.text("red", match=match, k=12)
    assert {hit.near_duplicates for hit in alone.results} == {None}
    together = shots.text("red", match=match, k=12, group_near_duplicates=True)
    assert names(together)[0] == [f"red {n}.png" for n in range(3)]
    assert len(together.results) == (1 if match == "text" else 4)
    assert [hit.rank for hit in together.results] == list(range(1, len(together.results) + 1))
    best = together.results[0]
    assert (best.image_id, best.score, best.probability) == (
        alone.results[0].image_id,
        alone.results[0].score,
        alone.results[0].probability,
    )


def test_k_counts_groups_and_a_group_is_whole(shots: Library) -> None:
    two = shots.text("blue", k=2, group_near_duplicates=True)
    assert [len(group) for group in names(two)] == [3, 3]
    assert shots.text("blue", k=2, group_near_duplicates=True, filter={"tags": {"no": 1}}).results == []


def test_pictures_like_a_picture_are_grouped_and_captions_are_not(shots: Library) -> None:
    features = shots.features(image_id_of("red 0"))
    own = image_id_of("red 0")
    alike = shots.image(features, own, target="images", group_near_duplicates=True)
    assert names(alike)[0] == ["red 1.png", "red 2.png"]
    with pytest.raises(InvalidRequest, match="target=images"):
        ImageSearchRequest(target="captions", group_near_duplicates=True)
    with pytest.raises(InvalidRequest, match="captions have no date"):
        ImageSearchRequest(target="captions", sort="date")


def test_a_picture_without_a_hash_stays_alone(tmp_path: Path) -> None:
    library = Library(tmp_path)
    for n in range(2):
        library.add(f"red {n}", two_coloured("red", "red"))
    library.catalog.hashes.add({image_id_of("red 0"): b""})
    assert names(library.text("red", group_near_duplicates=True)) == [["red 0.png"], ["red 1.png"]]
    library.close()
