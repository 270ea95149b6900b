"""One list of two: the pictures' ranking, and the pictures whose words hold the question.

Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): a picture's place is decided by the sum of
1 / (RANK_CONSTANT + rank) over the lists that hold it. Scores of different kinds are never compared.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from index.catalog.text.search import TextMatch, is_date, query_terms
from index.records import Image
from service.search.candidates import Candidates, first_found, scores_of
from service.search.near_duplicates import grouped
from service.search.requests import SearchRequest, TextSearchRequest
from service.search.results import FoundBy, PairExplanation, RankedPicture, ScoredWord

RANK_CONSTANT = 60  # of that paper, found on one collection and kept for all others


def fused(ranking: Sequence[int], text_ranks: Mapping[int, int], text_first: bool = False) -> list[int]:
    """The slots of a ranking (the best first) and those that have a rank by their text (from 1), the best first.

    Where both lists say the same, what the text found comes first: all words of the question are in it. With
    `text_first` all that it found does. Without text ranks this is the ranking.
    """
    if not text_ranks:
        return list(ranking)
    if text_first:
        by_text = sorted(text_ranks, key=text_ranks.__getitem__)
        return [*by_text, *(slot for slot in ranking if slot not in text_ranks)]
    sums: dict[int, float] = defaultdict(float)
    for rank, slot in enumerate(ranking, start=1):
        sums[slot] += 1 / (RANK_CONSTANT + rank)
    for slot, rank in text_ranks.items():
        sums[slot] += 1 / (RANK_CONSTANT + rank)
    order = {slot: place for place, slot in enumerate([*ranking, *text_ranks])}
    return sorted(sums, key=lambda slot: (-sums[slot], text_ranks.get(slot, len(order) + 1), order[slot]))


def fused_hits(
    candidates: Candidates | None,
    order: Sequence[int],
    matches: Sequence[TextMatch],
    k: int,
    fetch: Callable[[Sequence[int]], Sequence[Image | None]],
    text_first: bool = False,
) -> list[RankedPicture]:
    """The best k pictures of `order`, which are positions among the candidates, and of the text's matches."""
    positions = {candidates.rows[n]: n for n in order} if candidates else {}
    ranks = {match.image.slot: match.rank for match in matches if match.image.slot is not None}
    slots = fused(list(positions), ranks, text_first)
    hits = []
    for rank, (place, image) in enumerate(first_found(slots, k, fetch), start=1):
        by_text: tuple[FoundBy, ...] = ("text",) if slots[place] in ranks else ()
        if candidates is None or slots[place] not in positions:
            hits.append(RankedPicture(**vars(image), rank=rank, found_by=by_text))
        else:
            scores = scores_of(candidates, positions[slots[place]])
            hits.append(RankedPicture(**vars(image), **scores, rank=rank, found_by=("pictures", *by_text)))
    return hits


def best_pictures(
    request: SearchRequest,
    candidates: Candidates | None,
    order: Sequence[int],
    matches: Sequence[TextMatch],
    fetch: Callable[[Sequence[int]], Sequence[Image | None]],
) -> list[RankedPicture]:
    """`fused_hits`, of which near duplicates are grouped where the request says so.

    No picture shows a date: where a question asks for nothing else, pictures of that date come first.
    """
    text_first = bool(matches) and isinstance(request, TextSearchRequest) and is_date(request.subject)
    if not request.group_near_duplicates:
        return fused_hits(candidates, order, matches, request.k, fetch, text_first)
    every = len(order) + len(matches) or 1
    return grouped(fused_hits(candidates, order, matches, every, fetch, text_first), request.k)


def explained_by_text(hit: RankedPicture, question: str) -> RankedPicture:
    """A picture that its text alone found, with that as its explanation: the words of the question that it holds."""
    words = [ScoredWord(word, special=False) for word in query_terms(question)]
    return replace(hit, explanation=PairExplanation(kind="text", words=words, regions=[]))
