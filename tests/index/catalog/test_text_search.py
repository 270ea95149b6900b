"""The text index: as the catalog is after every change, asked in any words, freed of what was taken away."""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import index.catalog.text.search
from index.catalog.catalog import Catalog
from index.catalog.filters import Filter
from index.catalog.text.named_tags import named_tags
from index.catalog.text.search import content_words, is_date, match_expression
from index.catalog.text_index import date_words, name_words, split_words
from index.records import PictureChange
from tests.support.catalogs import make_ready, picture

EVERY = Filter()
MAY_2023 = datetime(2023, 5, 14, 12, tzinfo=UTC).timestamp()


def found_ids(catalog: Catalog, question: str, condition: Filter = EVERY, limit: int = 100) -> list[str]:
    return [match.image.image_id for match in catalog.texts.matches(question, limit, condition)]


def indexed(folder: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(folder / "catalog.sqlite")) as database:
        return database.execute("SELECT rowid, * FROM texts ORDER BY rowid").fetchall()


@pytest.mark.parametrize(
    ("filename", "words"),
    [
        ("IMG_0412.jpg", "img 0412 jpg"),
        ("DSC01234.JPG", "dsc01234 jpg dsc 01234"),
        ("Holiday 2023/BeachHouse.jpg", "holiday 2023 beachhouse jpg beach house"),
        ("Café-Übung.png", "cafe ubung png"),
        ("NASA.jpg", "nasa jpg"),
        ("海辺.jpg", "海 辺 jpg"),
        ("日本2023山.jpg", "日 本 2023 山 jpg"),
        ("", ""),
    ],
)
def test_a_file_name_is_split_into_words_and_numbers(filename: str, words: str) -> None:
    assert name_words(filename) == words


@pytest.mark.parametrize(
    ("caption", "held", "lacked"),
    [
        ("東京タワーの夜景", ["東京", "タワー", "夜景", "東京タワー", "東京 夜景"], ["京東", "東夜", "大阪"]),
        ("ナイトマーケット・バンコク", ["マーケット", "バンコク"], ["バコク"]),
        ("ภาพสวนลุมพินี", ["สวนลุม", "สวน", "ภาพ"], ["ลุมสวน"]),
        ("北京 trip 2023 故宫", ["故宫", "trip", "北京 2023"], ["宫故"]),
        ("서울 타워에서", ["서울", "타워에서"], ["워에"]),
    ],
)
def test_parts_of_a_text_without_spaces_are_found_in_their_order(
    catalog: Catalog, caption: str, held: list[str], lacked: list[str]
) -> None:
    catalog.take_in([picture("a", captions=[caption])], 1.0)
    make_ready(catalog, "a")
    assert {question: found_ids(catalog, question) for question in held} == {question: ["a"] for question in held}
    assert {question: found_ids(catalog, question) for question in lacked} == {question: [] for question in lacked}


def test_a_date_is_in_words_where_there_is_one() -> None:
    words = "2023 05 14 14 may 2023 may sunday 20230514 052023 14052023 05142023"
    assert date_words(MAY_2023) == words
    for impossible in (None, 1e300, -1e300, float("nan"), float("inf")):
        assert date_words(impossible) == ""


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("IMG_0412", ["name"]),
        ("img_0412.jpg", ["name"]),
        ("0412", ["name"]),
        ("DSC01234", ["camera"]),
        ("01234", ["camera"]),
        ("beach 2023", ["beach"]),
        ("May 2023", ["beach"]),
        ("2023-05", ["beach"]),
        ("14 may 2023", ["beach"]),
        ("the 14th of May 2023", ["beach"]),
        ("14.05.2023", ["beach"]),
        ("05/14/2023", ["beach"]),
        ("14/5/2023", ["beach"]),
        ("5/2023", ["beach"]),
        ("20230514", ["beach"]),
        ("14-May-2023", ["beach"]),
        ("Sunday, May 14th, 2023", ["beach"]),
        ("photos taken in May 2023", ["beach"]),
        ("photos I took in May 2023", ["beach"]),
        ("What happened in May 2023?", ["beach"]),
        ("everything from May 2023", ["beach"]),
        ("Bilder vom 14. Mai 2023", ["beach"]),
        ("What did we do in Oslo?", ["tag"]),
        ("Bilder aus Oslo", ["tag"]),
        ("Zeige mir Bilder aus Oslo", ["tag"]),
        ("photo 14", []),  # and not every picture with a 14
        ("photos of 14", ["scan"]),
        ("pictures of the 14", ["scan"]),
        ("fotos de Oslo", ["tag"]),
        ("Saturday 14 May 2023", []),
        ("Mai 2023", ["beach"]),
        ("14. Mai 2023", ["beach"]),
        ("14-mai-2023", ["beach"]),
        ("14 de mayo de 2023", ["beach"]),
        ("beach maggio 2023", ["beach"]),
        ("15. Mai 2023", []),
        ("März 2023", []),
        ("mayo", []),  # is another word where no year is beside it
        ("2023-5-14", ["beach"]),
        ("2023/5", ["beach"]),
        ("May-14-2023", ["beach"]),
        ("14/2023", []),
        ("14.05.2022", ["scan"]),  # as its name has it
        ("05/2022", []),
        ("us zeppelin", []),
        ("her 1st birthday in May", ["birthday"]),
        ("14th birthday in May", []),
        ("2023-5-15", []),
        ("album", []),
        ("cd", []),
        ("47c", []),
        ("14", ["scan"]),  # and not what was taken on some 14th
        ("beach 14", []),
        ("beach 14 May", ["beach"]),
        ("14 05 2023 beach", ["beach"]),
        ("14 beach 2023", []),
        ("beach/x.jpg", ["beach"]),  # as the page names a file of an album
        ("beach\\x.jpg", ["beach"]),
        ("58147c87cd", ["digest"]),
        ("a picture of the zeppelin", ["caption"]),
        ("zeppelins", ["caption"]),
        ("ZÉPPELIN", ["caption"]),
        ("place Oslo", ["tag"]),
        ("zeppelin oslo", []),
        ("2023-14", []),
        ("0412_IMG", []),
        ("of the", ["caption"]),
        ("...", []),
    ],
)
def test_names_dates_tags_and_captions_are_found_by_their_words(
    catalog: Catalog, question: str, expected: list[str]
) -> None:
    pictures = [
        picture("name", filename="IMG_0412.jpg"),
        picture("camera", filename="DSC01234.JPG"),
        picture("beach", filename="x.jpg", tags={"album": "beach"}, taken_at=MAY_2023),
        picture("caption", filename="y.jpg", captions=["a zeppelin of the old kind"]),
        picture("tag", filename="z.jpg", tags={"place": "Oslo", "year": 1999}),
        picture("digest", filename="1_58147c87cd.jpg"),
        picture("birthday", filename="v.jpg", captions=["1st birthday, in May"]),
        picture("scan", filename="14.05.2022.jpg"),
    ]
    catalog.take_in(pictures, now=1.0)
    make_ready(catalog, *(one.image_id for one in pictures))
    assert found_ids(catalog, question) == expected


def test_what_is_not_shown_is_not_found_and_a_filter_holds(catalog: Catalog) -> None:
    catalog.take_in([picture(name, captions=["zeppelin"], tags={"n": n}) for n, name in enumerate("abc")], now=1.0)
    make_ready(catalog, "a", "b")
    assert found_ids(catalog, "zeppelin") == ["b", "a"]
    assert found_ids(catalog, "zeppelin", Filter(tags={"n": 0})) == ["a"]
    catalog.delete("a", now=2.0)
    assert found_ids(catalog, "zeppelin") == ["b"]
    catalog.restore("a", kept_since=0.0)
    assert found_ids(catalog, "zeppelin") == ["b", "a"]
    catalog.change("b", PictureChange(captions=["airship"], filename="new name.jpg"))
    assert [found_ids(catalog, question) for question in ("zeppelin", "airship", "new-name")] == [["a"], ["b"], ["b"]]


def test_equal_matches_share_a_rank(catalog: Catalog) -> None:
    captions = ["zeppelin", "zeppelin", "a zeppelin among very many other words of all kinds", "boat"]
    catalog.take_in([picture(f"{n}", filename="x.jpg", captions=[text]) for n, text in enumerate(captions)], now=1.0)
    make_ready(catalog, *"0123")
    matches = catalog.texts.matches("zeppelin", 10, EVERY)
    assert [(match.image.image_id, match.rank) for match in matches] == [("1", 1), ("0", 1), ("2", 3)]
    assert [match.rank for match in catalog.texts.matches("zeppelin", 1, EVERY)] == [1]


def test_what_is_said_of_a_picture_comes_before_the_names_of_its_folders(catalog: Catalog) -> None:
    pictures = [
        picture(
            "caption", filename="1.jpg", captions=["one of a great many zeppelins over the old town in the evening"]
        ),
        picture("both", filename="zeppelin/old.jpg"),
        picture("folder", filename="old zeppelin/zeppelin/2.jpg", tags={"album": "Old/Zeppelin"}),
        picture("name", filename="x/old zeppelin.jpg"),
    ]
    catalog.take_in(pictures, now=1.0)
    make_ready(catalog, *(one.image_id for one in pictures))
    matches = catalog.texts.matches("old zeppelin", 5, EVERY)
    assert [match.by_folder for match in matches] == [False, False, True, True]
    assert {match.image.image_id for match in matches[:2]} == {"caption", "name"}


def test_of_very_many_matches_the_latest_are_looked_at(catalog: Catalog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index.catalog.text.search, "MOST_LOOKED_AT", 3)
    names = [f"{n:02}" for n in range(10)]
    catalog.take_in([picture(name, captions=["boat"], tags={"odd": int(name) % 2}) for name in names], now=1.0)
    make_ready(catalog, *names)
    assert found_ids(catalog, "boat") == ["09", "08", "07"]
    assert found_ids(catalog, "boat", Filter(tags={"odd": 0})) == ["08", "06", "04"]


SYNTAX = ["AND", "OR", "NOT", "NEAR(a b)", '"', "'", "*", "a*", "^", "-", "filename:x", "{", ")", "zeppelin"]
TEXTS = st.text(min_size=1, max_size=40) | st.lists(st.sampled_from(SYNTAX)).map(" ".join)


@pytest.fixture(scope="module")
def searched_catalog(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    made = Catalog(tmp_path_factory.mktemp("searched_catalog") / "catalog.sqlite")
    made.take_in([picture("zeppelin", filename="x.jpg", captions=["zeppelin"])], now=1.0)
    make_ready(made, "zeppelin")
    yield made
    made.close()


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("2023", True),
        ("photos taken in May 2023", True),
        ("14. März 2023", True),
        ("août 2019", True),
        ("14 de mayo de 2023", True),
        ("24 December", True),
        ("pictures of May 14th", True),
        ("am 24. Dezember", True),
        ("Sunday the 14th", False),
        ("December", True),
        ("Mai", False),
        ("Sunday, the 14th of May 2023", True),
        ("2023-05-14", True),
        ("20230514", True),
        ("May", False),  # perhaps a name
        ("14", False),
        ("beach 2023", False),
        ("IMG_2023", False),
        ("2 dogs", False),
        ("", False),
    ],
)
def test_a_date_alone_is_told(question: str, expected: bool) -> None:
    assert is_date(question) is expected


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Kueche", ["a", "b"]),
        ("Küche", ["a", "b"]),
        ("kuche", ["a"]),
        ("Sued-Baeume", ["a"]),
        ("Su\u0308d", ["a"]),
        ("Kueche Muenchen", ["a"]),
        ("Koeln", ["b"]),
        ("Straße", ["b"]),
        ("blue shoes", ["c"]),
        ("does", ["c"]),
        ("toes", []),  # none of "to"
        ("poet", []),  # no "pot"
    ],
)
def test_umlauts_are_found_however_they_are_written(catalog: Catalog, question: str, expected: list[str]) -> None:
    folders = {"a": "München Küche Süd Bäume", "b": "Kueche Köln Strasse", "c": "does a pot go to blue shoes"}
    catalog.take_in([picture(name, filename="x.jpg", captions=[text]) for name, text in folders.items()], now=1.0)
    make_ready(catalog, *folders)
    assert sorted(found_ids(catalog, question)) == expected


@given(question=TEXTS)
def test_no_question_is_syntax(searched_catalog: Catalog, question: str) -> None:
    words = {word for word in match_expression(question).replace('"', "").split(" AND ") if word}
    expected = ["zeppelin"] if words and words <= {"zeppelin", "x", "jpg", "x jpg"} else []
    # English endings are left off, so that other words may be the same to the index.
    assert found_ids(searched_catalog, question) in (expected, ["zeppelin"] if "zeppelin" in question else [])


def test_a_question_of_very_many_words_is_answered(searched_catalog: Catalog) -> None:
    assert found_ids(searched_catalog, " ".join(chr(0x4E00 + n) for n in range(512))) == []
    assert found_ids(searched_catalog, "zeppelin " * 512) == ["zeppelin"]


@given(text=st.text(max_size=60))
def test_a_picture_is_found_by_its_own_caption(text: str) -> None:
    with TemporaryDirectory() as folder, closing(Catalog(Path(folder) / "catalog.sqlite")) as catalog:
        caption = f"zeppelin {text}".encode(errors="replace").decode()
        catalog.take_in([picture("own", filename="x.jpg", captions=[caption])], now=1.0)
        make_ready(catalog, "own")
        assert found_ids(catalog, caption) == ["own"]
        assert all(found_ids(catalog, word) == ["own"] for word in split_words(caption))


NAMES = st.sampled_from("abc")
WORDS = st.lists(st.sampled_from(["boat", "beach", "dog"]), min_size=1, max_size=3).map(" ".join)
STEPS = st.one_of(
    st.tuples(st.just("accept"), NAMES, WORDS),
    st.tuples(st.just("ready"), NAMES, WORDS),
    st.tuples(st.just("change"), NAMES, WORDS),
    st.tuples(st.just("delete"), NAMES, WORDS),
    st.tuples(st.just("restore"), NAMES, WORDS),
    st.tuples(st.just("erase"), NAMES, WORDS),
    st.tuples(st.just("forget"), NAMES, WORDS),
)


def apply(catalog: Catalog, step: tuple[str, str, str], now: float) -> None:
    kind, name, words = step
    if kind == "accept":
        catalog.take_in([picture(name, captions=[words], tags={"t": words}, taken_at=MAY_2023)], now, now - 2)
    elif kind == "ready":
        make_ready(catalog, *[one.image_id for one in catalog.queue.waiting(9) if one.image_id == name])
    elif kind == "change":
        catalog.change(name, PictureChange(captions=[words], tags={"u": words}, taken_at=None, filename=words))
    elif kind == "delete":
        catalog.delete(name, now)
    elif kind == "restore":
        catalog.restore(name, now - 2)
    elif kind == "erase":
        catalog.erasures.erase_deleted(now - 2, now, 9)
    else:
        catalog.erasures.forget(catalog.erasures.being_erased(9))


@settings(max_examples=40)
@given(steps=st.lists(STEPS, max_size=15))
def test_after_any_changes_the_index_is_as_one_made_anew(steps: Sequence[tuple[str, str, str]]) -> None:
    with TemporaryDirectory() as folder, closing(Catalog(Path(folder) / "catalog.sqlite")) as catalog:
        for now, step in enumerate(steps):
            apply(catalog, step, float(now))
        kept = indexed(Path(folder))
        catalog.texts.rebuild()
        assert indexed(Path(folder)) == kept
        for question in ("boat", "beach dog", "2023", "jpg"):
            held = {
                image.image_id
                for image in catalog.list_images(None, 100)
                if image.state == "ready"
                and set(question.split())
                <= set(split_words(" ".join([image.filename, *image.captions, *map(str, image.tags.values())])))
                | set(date_words(image.taken_at).split())
            }
            assert set(found_ids(catalog, question)) == held


@pytest.mark.parametrize("taken_away", ["erased", "changed"])
def test_words_that_were_taken_away_are_in_no_byte_of_the_file(
    catalog: Catalog, tmp_path: Path, taken_away: str
) -> None:
    names = [f"{n:03}" for n in range(300)]
    catalog.take_in([picture(name, captions=[f"boat number {name}"]) for name in names], now=1.0)
    catalog.take_in([picture("secret", captions=["unheardof"])], now=1.0)
    make_ready(catalog, *names, "secret")
    if taken_away == "erased":
        catalog.delete("secret", now=2.0)
        catalog.erasures.erase_deleted(3.0, 3.0, 10)
    else:
        catalog.change("secret", PictureChange(captions=["boat"]))
    assert catalog.texts.purge()
    assert not catalog.texts.purge()
    catalog.erasures.fold_log()
    assert b"nheardof" not in (tmp_path / "catalog.sqlite").read_bytes()
    assert len(found_ids(catalog, "boat", limit=1000)) == 300 + (taken_away == "changed")


@pytest.mark.parametrize(
    ("question", "tags"),
    [
        ("a dog in New York", [("place", "New York")]),
        ("anna beside a lake", [("who", "Anna")]),
        ("oslo with Anna", [("album", "Trips/Oslo"), ("who", "Anna")]),
        ("a dog in York", []),
        ("a dog on trips", []),
        ("snow", []),  # a keyword
        ("2023", []),
        ("bergen", []),  # of what was deleted
        ("?", []),
    ],
)
def test_tags_that_a_question_names(catalog: Catalog, question: str, tags: list[tuple[str, str]]) -> None:
    about = [{"place": "New York"}, {"who": "Anna", "year": 2023}, {"album": "Trips/Oslo", "keywords": "snow"}]
    for number, said in enumerate([*about, {"place": "Bergen"}]):
        catalog.take_in([picture(str(number), tags=said)], 1.0)
        make_ready(catalog, str(number))
    catalog.delete("3", 2.0)
    beside = catalog.texts.tags_beside(content_words(question))
    assert named_tags(question, chain.from_iterable(beside.values())) == tags
