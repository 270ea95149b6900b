"""Fusion of two lists: the model's ranking, and the pictures whose text holds the question.

Reciprocal rank fusion (Cormack, Clarke and Buettcher 2009): a picture's place is decided by the sum of
1 / (RANK_CONSTANT + rank) over the lists that hold it. Scores of different kinds are never compared.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from index.catalog.text.search import TextMatch, is_date, query_terms
from index.records import Image
from service.search.candidates import Candidates, first_found, scores_of
from service.search.near_duplicates import grouped
from service.search.query import OpenQuery
from service.search.results import FoundBy, PairExplanation, RankedPicture, ScoredWord

RANK_CONSTANT = 60  # as in that paper, tuned there on one collection and kept for all others
FOLDER_SHARE = 0.25  # factor on the rank of a picture found by its folder's name: docs/lab/folder-names.md


def fused(
    ranking: Sequence[int],
    text_ranks: Mapping[int, int],
    text_first: bool = False,
    by_folder: Collection[int] = (),
) -> list[int]:
    """The slots of a ranking (best first), of text matches (slot -> rank from 1) and of pictures matched only by the
    name of their folder, in one list, best first.

    Text matches win ties: their text holds all words of the question. With `text_first` all of them come first. Slots
    in `by_folder` are raised in the ranking, or follow it where they are not in it. A ranking alone stays as it is.
    """
    if not text_ranks and not by_folder:
        return list(ranking)
    if text_first:
        by_text = sorted(text_ranks, key=text_ranks.__getitem__)
        return [*by_text, *(slot for slot in ranking if slot not in text_ranks)]
    sums: dict[int, float] = defaultdict(float)
    for rank, slot in enumerate(ranking, start=1):
        sums[slot] += 1 / (RANK_CONSTANT + (FOLDER_SHARE * rank if slot in by_folder else rank))
    for slot, rank in text_ranks.items():
        sums[slot] += 1 / (RANK_CONSTANT + rank)
    order = {slot: place for place, slot in enumerate(dict.fromkeys([*ranking, *text_ranks, *by_folder]))}
    return sorted(order, key=lambda slot: (-sums[slot], text_ranks.get(slot, len(order) + 1), order[slot]))


def best_pictures(
    query: OpenQuery[Any],
    candidates: Candidates | None,
    order: Sequence[int],
    matches: Sequence[TextMatch],
    demote_folders: bool = False,
) -> list[RankedPicture]:
    """The best k pictures of `order`, which are positions among the candidates, and of the text's matches; near
    duplicates are grouped where the request says so.

    No picture shows a date: where a question asks for nothing else, pictures of that date come first. `demote_folders`
    is for questions about things that pictures surely show: the name of a folder then says what its pictures have in
    common, but not which of them show it, so that it only raises them in the ranking.
    """
    positions = {candidates.rows[n]: n for n in order} if candidates else {}
    ranks = {match.image.slot: match.rank for match in matches if match.image.slot is not None}
    by_folder = {match.image.slot for match in matches if match.by_folder and demote_folders}
    text_ranks = {slot: rank for slot, rank in ranks.items() if slot not in by_folder}
    text_first = bool(matches) and is_date(query.parsed.subject)
    slots = fused(list(positions), text_ranks, text_first, [slot for slot in ranks if slot in by_folder])

    def hits(k: int) -> list[RankedPicture]:
        records = enumerate(first_found(slots, k, query.gallery.images_at), start=1)
        return [
            _hit(image, rank, candidates, positions.get(slots[n]), slots[n] in ranks) for rank, (n, image) in records
        ]

    request = query.request
    return grouped(hits(len(slots) or 1), request.k) if request.group_near_duplicates else hits(request.k)


def _hit(image: Image, rank: int, candidates: Candidates | None, position: int | None, by_text: bool) -> RankedPicture:
    """A picture that was found as the candidate at a position, by its text, or by both."""
    texts: tuple[FoundBy, ...] = ("text",) if by_text else ()
    if candidates is None or position is None:
        return RankedPicture(**vars(image), rank=rank, found_by=texts)
    return RankedPicture(**vars(image), **scores_of(candidates, position), rank=rank, found_by=("pictures", *texts))


def explained_by_text(hit: RankedPicture, question: str) -> RankedPicture:
    """A picture found by its text alone, explained by the words of the question that the text holds."""
    words = [ScoredWord(word, special=False) for word in query_terms(question)]
    return replace(hit, explanation=PairExplanation(kind="text", words=words, regions=[]))
