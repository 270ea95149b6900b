"""Stage one against a plain matrix product: never a row not allowed, never a change to what was published."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from index.views import shortlist as shortlists
from index.views.shortlist import GROWTH, Shortlist, code_width, flat_part, inverted_part

DIM = 5
Floats = npt.NDArray[np.float32]
Mask = npt.NDArray[np.bool_]


def whole_numbers(count: int, seed: int) -> Floats:
    """Small whole numbers: their products are exact in any order of adding, and many are equal."""
    return np.random.default_rng(seed).integers(-2, 3, (count, DIM)).astype(np.float32)


def check(shortlist: Shortlist, rows: Floats, query: Floats, k: int, allowed: Mask, exact: bool = True) -> None:
    """Scores and rows as sorting all allowed products would give them (of equal last ones any, unless `exact`)."""
    scores, found = shortlist.search(query, k, allowed)
    assert scores.shape == found.shape == (len(query), k)
    candidates = np.flatnonzero(allowed[: len(rows)])
    # Not by a BLAS, whose kernels may read past small matrices and so raise flags of numbers that nobody asked for.
    all_products = np.einsum("qd,nd->qn", query, rows)
    for scores_of, found_of, products in zip(scores, found, all_products, strict=True):
        count = min(k, len(candidates))
        assert (found_of[count:] == -1).all()
        assert np.isneginf(scores_of[count:]).all()
        chosen = found_of[:count]
        assert len(set(chosen)) == count
        assert set(chosen) <= set(candidates)
        np.testing.assert_array_equal(scores_of[:count], products[chosen])
        np.testing.assert_array_equal(chosen, chosen[np.lexsort((chosen, -products[chosen]))])
        if exact:
            best = candidates[np.argsort(-products[candidates], kind="stable")]
            np.testing.assert_array_equal(chosen, best[:count])


def holds_an_index(shortlist: Shortlist) -> bool:
    """Whether part of it is searched approximately."""
    return any(part.exact is not None for part in shortlist.parts)


class Growing(RuleBasedStateMachine):
    """Rows are added and hidden, an index is built of the first rows, and the shortlist is now and then made anew from
    all rows (a reopening)."""

    @initialize(ivf_from=st.sampled_from([1, 25, 10**6]))
    def start(self, ivf_from: int) -> None:
        self.ivf_from = ivf_from
        self.rows = np.empty((0, DIM), np.float32)
        self.allowed = np.empty(0, np.bool_)
        self.shortlist = Shortlist(DIM, ivf_from=ivf_from)
        self.published: list[tuple[Shortlist, int]] = []
        self.indexed = 0

    @rule(count=st.integers(0, 40), seed=st.integers(0, 2**32 - 1))
    def add(self, count: int, seed: int) -> None:
        self.publish()
        self.rows = np.concatenate([self.rows, whole_numbers(count, seed)])
        self.allowed = np.concatenate([self.allowed, np.ones(count, np.bool_)])
        self.shortlist = self.shortlist.extended(self.rows[len(self.shortlist) :])

    def publish(self) -> None:
        self.published.append((self.shortlist, len(self.rows)))

    @rule(later=st.integers(0, 5))
    def index_what_is_due(self, later: int) -> None:
        """Build an index of the rows of one of the last shortlists, as a thread that took a while would."""
        before, count = [*self.published[-later - 1 : -1], (self.shortlist, len(self.rows))][0]
        if before.index_is_due and count >= self.indexed:
            self.publish()
            self.indexed = count
            self.shortlist = self.shortlist.indexed(inverted_part(self.rows[:count]))
            assert self.shortlist.parts[0].exact is not None
            assert later or not self.shortlist.index_is_due

    @rule(share=st.floats(0, 0.3), seed=st.integers(0, 2**32 - 1))
    def replace(self, share: float, seed: int) -> None:
        """Other vectors for some rows: those that an index holds are found by the new ones, and not by the old."""
        changed = np.flatnonzero(np.random.default_rng(seed).random(len(self.rows)) < share)
        self.published.clear()  # their rows are overwritten where they lie
        self.rows = self.rows.copy()
        self.rows[changed] = whole_numbers(len(changed), seed)
        self.shortlist = self.shortlist.overwritten(changed.tolist(), self.rows)

    @rule(share=st.floats(0, 1), seed=st.integers(0, 2**32 - 1))
    def hide(self, share: float, seed: int) -> None:
        self.allowed &= np.random.default_rng(seed).random(len(self.allowed)) >= share

    @rule()
    def reopen(self) -> None:
        self.shortlist, self.indexed = Shortlist(DIM, ivf_from=self.ivf_from).extended(self.rows), 0

    @rule(num_queries=st.sampled_from([1, 3, 30]), k=st.integers(1, 60), seed=st.integers(0, 2**32 - 1))
    def search(self, num_queries: int, k: int, seed: int) -> None:
        query = whole_numbers(num_queries, seed)
        check(self.shortlist, self.rows, query, k, self.allowed, exact=not self.indexed)

    @rule(seed=st.integers(0, 2**32 - 1))
    def search_what_was_published_before(self, seed: int) -> None:
        for shortlist, count in self.published[-3:]:
            assert len(shortlist) == count
            rows = self.rows[:count]
            everything = np.ones(count, np.bool_)
            check(shortlist, rows, whole_numbers(2, seed), 7, everything, exact=not holds_an_index(shortlist))

    @invariant()
    def has_every_row(self) -> None:
        assert len(self.shortlist) == len(self.rows)


TestGrowing = Growing.TestCase


@given(st.integers(0, 40), st.integers(0, 60), st.integers(1, 50))
def test_a_mask_may_be_shorter_or_longer_than_the_shortlist(count: int, mask_length: int, k: int) -> None:
    rows = whole_numbers(count, seed=1)
    allowed = np.random.default_rng(2).random(mask_length) < 0.7
    check(Shortlist(DIM).extended(rows), rows, whole_numbers(2, seed=3), k, allowed)


@settings(max_examples=40)
@given(
    distinct=st.integers(1, 6),
    lengths=st.lists(st.integers(0, 12), min_size=1, max_size=3),
    share=st.sampled_from([None, 0.3, 0.8]),
    seed=st.integers(0, 2**32 - 1),
)
def test_the_first_of_equal_rows_are_found_and_shards_find_what_one_gallery_does(
    distinct: int, lengths: list[int], share: float | None, seed: int
) -> None:
    """Few vectors that many rows have, as identical captions do, and one of zeros."""
    random = np.random.default_rng(seed)
    vectors = np.concatenate([whole_numbers(distinct, seed), np.zeros((1, DIM), np.float32)])
    rows, query = vectors[random.integers(0, len(vectors), sum(lengths))], whole_numbers(3, seed + 1)
    allowed = None if share is None else random.random(len(rows)) < share
    gallery, starts = Shortlist(DIM).extended(rows), np.cumsum([0, *lengths])
    shards = [Shortlist(DIM).extended(rows[start : start + n]) for start, n in zip(starts, lengths, strict=False)]
    products = np.einsum("qd,nd->qn", query, rows)
    passing = np.arange(len(rows)) if allowed is None else np.flatnonzero(allowed)
    sorted_rows = [passing[np.argsort(-of_query[passing], kind="stable")] for of_query in products]
    for k in range(1, len(rows) + 2):
        found = gallery.search(query, k, allowed)[1]
        of_shards = [
            shard.search(query, k, None if allowed is None else allowed[start:])[1]
            for start, shard in zip(starts, shards, strict=False)
        ]
        for number, best in enumerate(sorted_rows):
            np.testing.assert_array_equal(found[number][: len(best)], best[:k])
            merged = np.concatenate(
                [one[number][one[number] >= 0] + start for start, one in zip(starts, of_shards, strict=False)]
            )
            merged = merged[np.lexsort((merged, -products[number][merged]))]
            np.testing.assert_array_equal(merged[:k], best[:k])


@pytest.mark.parametrize("num_queries", [1, 30])  # FAISS multiplies matrices for many
def test_of_identical_captions_the_first_come_whatever_else_is_asked(num_queries: int) -> None:
    random = np.random.default_rng(7)
    rows = random.standard_normal((500, 384)).astype(np.float32)
    equal = np.sort(random.choice(499, 200, replace=False))
    rows[equal] = rows[equal[0]]
    rows[499] = 1.5 * rows[equal[0]]  # for which FAISS drops one of those that it has
    shortlist, query = Shortlist(384).extended(rows), np.repeat(rows[equal[:1]], num_queries, axis=0)
    expected = np.append(499, equal)
    for k in (1, 2, 99, 150, 200, 202):
        for found in shortlist.search(query, k)[1]:
            np.testing.assert_array_equal(found[:201], expected[:k])


def test_an_empty_shortlist_finds_nothing() -> None:
    for allowed in (None, np.ones(3, np.bool_), np.empty(0, np.bool_)):
        scores, rows = Shortlist(DIM).search(whole_numbers(2, seed=0), 4, allowed)
        assert (rows == -1).all()
        assert np.isneginf(scores).all()
        assert rows.shape == scores.shape == (2, 4)


def test_no_mask_allows_every_row() -> None:
    rows, query = whole_numbers(50, seed=1), whole_numbers(2, seed=2)
    shortlist = Shortlist(DIM).extended(rows)
    for found, expected in zip(
        shortlist.search(query, 9), shortlist.search(query, 9, np.ones(50, np.bool_)), strict=True
    ):
        np.testing.assert_array_equal(found, expected)


def test_a_small_addition_shares_the_large_part() -> None:
    main = Shortlist(DIM).extended(whole_numbers(20_000, seed=1))
    shared = main
    for seed in range(20):
        shared = shared.extended(whole_numbers(8, seed))
        assert shared.parts[0].index is main.parts[0].index
    assert len(shared) == 20_160


def test_rows_added_one_by_one_lie_in_few_parts() -> None:
    shortlist = Shortlist(DIM)
    for row in whole_numbers(3_000, seed=1):
        shortlist = shortlist.extended(row[None])
        assert len(shortlist.parts) <= 5  # each at least eight times the next


def clustered(count: int, seed: int) -> Floats:
    """[count, 32] vectors around 40 centres."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(4).normal(size=(40, 32))
    return (centres[random.integers(0, 40, count)] + 0.5 * random.normal(size=(count, 32))).astype(np.float32)


def test_inverted_lists_find_nearly_what_a_full_search_finds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlists, "PROBED_LISTS", 9)  # an eighth
    rows = clustered(6_000, seed=4)
    query, few = rows[:50] + 0.1, np.zeros(6_000, np.bool_)
    few[np.random.default_rng(5).choice(6_000, 300, replace=False)] = True
    flat = Shortlist(32).extended(rows)
    lists = Shortlist(32).extended(rows).indexed(inverted_part(rows[:5_500]))
    assert [len(part) for part in lists.parts] == [5_500, 500]
    for allowed, least in ((None, 0.95), (few, 1.0)):  # a narrow filter looks through all lists
        (_, expected), (scores, found) = (one.search(query, 10, allowed) for one in (flat, lists))
        hits = [len(set(a) & set(b)) for a, b in zip(expected, found, strict=True)]
        assert np.mean(hits) >= 10 * least
        products = np.take_along_axis(query @ rows.T, found, axis=1)  # not those of the codes
        np.testing.assert_allclose(scores, products, rtol=1e-5)


def test_rows_found_by_their_codes_are_ordered_by_their_vectors() -> None:
    """Vectors that no code tells apart come as a full search would give them."""
    random = np.random.default_rng(8)
    vectors = np.repeat(random.normal(size=(40, 16)), 50, axis=0) + 1e-4 * random.normal(size=(2_000, 16))
    rows = np.asarray(vectors, np.float32)
    query = rows[::50]
    codes = Shortlist(16).extended(rows).indexed(inverted_part(rows))
    for one, found in zip(query, codes.search(query, 60)[1], strict=True):
        products = rows @ one
        assert (np.diff(products[found]) <= 1e-5).all()  # as far as rounding tells
        assert set(found[:10]) <= set(np.argsort(-products)[:12])


@pytest.mark.parametrize("is_indexed", [False, True])
def test_replaced_rows_are_found_by_their_new_vectors_alone(is_indexed: bool) -> None:
    rows = np.random.default_rng(0).normal(size=(900, DIM)).astype(np.float32)
    before = Shortlist(DIM, [inverted_part(rows[:800])] if is_indexed else []).extended(rows[800 * is_indexed :])
    new = rows.copy()
    new[[3, 700, 850]] = 9 * new[[850, 3, 700]]  # each where it was in no list that is looked through
    shortlist = before.overwritten([3, 850], new).overwritten([700], new)
    for row in (3, 700, 850):
        assert shortlist.search(new[[row]], 1)[1].item() == row
        allowed = np.arange(len(rows)) != row
        scores, found = shortlist.search(new[[row]], 20, allowed)
        assert row not in found
        np.testing.assert_allclose(scores[0], new[found[0]] @ new[row], rtol=1e-5)
        assert len(set(found[0])) == 20
    assert before.search(rows[[850]], 1)[1].item() == np.argmax(rows @ rows[850])


def test_rows_that_were_near_before_they_were_replaced_hide_no_others() -> None:
    rows = np.random.default_rng(0).normal(size=(200, DIM)).astype(np.float32)
    query = np.ones((1, DIM), np.float32)
    nearest = np.argsort(-rows @ query[0])
    new = rows.copy()
    new[nearest[:60]] *= -1
    _, found = Shortlist(DIM, [inverted_part(rows)]).overwritten(nearest[:60].tolist(), new).search(query, 20)
    np.testing.assert_array_equal(found[0], nearest[60:80])


def test_an_index_whose_rows_were_replaced_is_due_again() -> None:
    rows = whole_numbers(90, 0)
    shortlist = Shortlist(DIM, [inverted_part(rows)], ivf_from=50)
    assert not shortlist.overwritten(range(9), rows).index_is_due
    assert shortlist.overwritten(range(10), rows).index_is_due


def test_equal_vectors_score_alike_wherever_they_lie() -> None:
    rows, query = (np.random.default_rng(6).standard_normal((n, 48)).astype(np.float32) for n in (60, 3))
    shortlist = Shortlist(48, [inverted_part(rows)]).extended(rows)
    scores, found = shortlist.search(query, 120)
    np.testing.assert_array_equal(scores[:, ::2], scores[:, 1::2])
    np.testing.assert_array_equal(found[:, ::2] + 60, found[:, 1::2])


def test_codes_take_a_byte_a_number() -> None:
    rows = clustered(20_000, seed=1)
    assert inverted_part(rows).index.code_size == 32
    assert inverted_part(rows[:, :20]).index.code_size == code_width(20) == 32  # what FAISS compares fastest
    assert [code_width(dim) for dim in (1, 16, 17, 384, 386)] == [16, 16, 32, 384, 400]
    assert inverted_part(rows).vectors() is rows


def test_inverted_lists_that_hold_nothing_allowed_do_not_end_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shortlists, "PROBED_LISTS", 2)
    rows = np.random.default_rng(6).normal(size=(2_000, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    far = rows[:, 0] < 0  # half of the rows, in lists that a query along the first axis looks at last
    shortlist, query = Shortlist(DIM, [inverted_part(rows)]), np.eye(1, DIM, dtype=np.float32)
    _, found = shortlist.search(query, 10, far)
    np.testing.assert_array_equal(found[0], np.flatnonzero(far)[np.argsort(-rows[far, 0])[:10]])


def test_queries_asked_together_are_answered_as_each_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """One of two finds too few rows in the lists that are looked through first, the other enough."""
    monkeypatch.setattr(shortlists, "PROBED_LISTS", 2)
    rows = np.random.default_rng(6).normal(size=(2_000, DIM)).astype(np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    far = rows[:, 0] < 0
    shortlist, query = Shortlist(DIM, [inverted_part(rows)]), np.eye(1, DIM, dtype=np.float32)
    both = np.concatenate([query, -query])
    for one, scores, found in zip(both, *shortlist.search(both, 10, far), strict=True):
        alone_scores, alone = shortlist.search(one[None], 10, far)
        np.testing.assert_array_equal(found, alone[0])
        np.testing.assert_array_equal(scores, alone_scores[0])


def test_an_index_is_due_when_an_eighth_of_the_rows_lies_outside() -> None:
    rows = whole_numbers(800, seed=1)
    shortlist = Shortlist(DIM, ivf_from=400).extended(rows[:399])
    assert not shortlist.index_is_due
    shortlist = shortlist.extended(rows[399:400])
    assert shortlist.index_is_due
    assert not holds_an_index(shortlist)  # nothing is trained by who adds rows
    shortlist = shortlist.indexed(inverted_part(rows[:400])).extended(rows[400:449])
    assert not shortlist.index_is_due
    shortlist = shortlist.extended(rows[449 : 400 + 400 // GROWTH])
    assert shortlist.index_is_due
    assert [len(part) for part in shortlist.indexed(inverted_part(rows[:450])).parts] == [450]


@pytest.mark.parametrize("indexed", [0, 1, 99, 100, 101, 130])
def test_an_index_takes_the_place_of_the_first_rows_alone(indexed: int) -> None:
    rows = whole_numbers(130, seed=1)
    parts = [flat_part(rows[:100]), flat_part(rows[100:])]
    part = inverted_part(rows[:indexed]) if indexed else flat_part(rows[:0])
    shortlist = Shortlist(DIM, parts).indexed(part)
    assert len(shortlist) == 130
    np.testing.assert_array_equal(np.concatenate([one.vectors() for one in shortlist.parts]), rows)
    check(shortlist, rows, whole_numbers(2, seed=3), 9, np.ones(130, np.bool_), exact=False)


def test_an_index_of_more_rows_than_there_are_is_refused() -> None:
    rows = whole_numbers(20, seed=1)
    with pytest.raises(ValueError, match="has 10 rows, the index 20"):
        Shortlist(DIM).extended(rows[:10]).indexed(inverted_part(rows))


@pytest.mark.parametrize(("shape", "k"), [((DIM,), 3), ((1, DIM + 1), 3), ((1, DIM), 0)])
def test_a_query_of_another_shape_is_refused(shape: tuple[int, ...], k: int) -> None:
    with pytest.raises(ValueError, match="a query is"):
        Shortlist(DIM).search(np.zeros(shape, np.float32), k)


def test_embeddings_of_another_shape_are_refused() -> None:
    for shape in ((DIM,), (2, DIM + 1)):
        with pytest.raises(ValueError, match="embeddings are"):
            Shortlist(DIM).extended(np.zeros(shape, np.float32))


def test_many_threads_search_while_another_extends() -> None:
    rows = np.random.default_rng(5).normal(size=(3_000, DIM)).astype(np.float32)
    published = [Shortlist(DIM).extended(rows[:100])]

    def extend() -> None:
        for stop in range(130, 3_001, 70):
            published.append(published[-1].extended(rows[len(published[-1]) : stop]))

    def search(seed: int) -> None:
        random = np.random.default_rng(seed)
        for _ in range(60):
            shortlist = published[-1]
            count, query = len(shortlist), random.normal(size=(1, DIM)).astype(np.float32)
            allowed = random.random(count) < random.random()
            scores, found = shortlist.search(query, 5, allowed)
            best = np.sort((query @ rows[:count][allowed].T)[0])[::-1][:5]
            np.testing.assert_allclose(scores[0, : len(best)], best, rtol=1e-4, atol=1e-5)
            assert allowed[found[0, : len(best)]].all()

    with ThreadPoolExecutor(5) as pool:
        for task in [pool.submit(extend), *(pool.submit(search, seed) for seed in range(4))]:
            task.result()
