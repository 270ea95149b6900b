"""Joint scoring of several queries' candidates: one query per thread on a processor, all in one call on a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.nn.functional import pad

from index.views.view import Snapshot
from models.matching.encoded import EncodedTexts
from models.matching.matcher import Matcher
from models.single_threads import single_threads, usual_threads
from service.search.scoring.joint_work import JointWork
from service.search.scoring.rerank import CHUNK, RowNumbers, Scores, read_pictures, score_pictures

QUERIES_A_CALL = 8  # on a GPU, where each sentence is scored with the candidates of all


@dataclass(frozen=True)
class StoredPairs:
    """Pictures of a view, by their rows, and the one sentence that each is scored with."""

    matcher: Matcher
    snapshot: Snapshot
    rows: RowNumbers
    texts: EncodedTexts

    def scores(self) -> Scores:
        """The [len(rows)] scores of the pictures."""
        return score_pictures(self.matcher, self.snapshot, self.rows, self.texts)


def joint_scorer(pairs: StoredPairs) -> JointWork[StoredPairs, Scores]:
    """Work that scores the pairs, jointly with those of other queries."""
    if pairs.matcher.device.type == "cpu":
        return JointWork(group="score", most=usual_threads(), item=pairs, together=scored_side_by_side)
    group = "score", pairs.matcher.digest, id(pairs.snapshot)
    return JointWork(group=group, most=QUERIES_A_CALL, item=pairs, together=scored_in_one_call)


def scored_side_by_side(queries: Sequence[StoredPairs]) -> list[Scores]:
    """The scores of each query, computed in a thread of its own; a single query uses all threads."""
    if len(queries) == 1:
        return [queries[0].scores()]
    return single_threads(usual_threads()).map(StoredPairs.scores, queries)


def scored_in_one_call(queries: Sequence[StoredPairs], chunk: int = CHUNK) -> list[Scores]:
    """The scores of queries of one model and one state of its view: each candidate is read once for all sentences."""
    if len(queries) == 1:
        return [queries[0].scores()]
    matcher, snapshot = queries[0].matcher, queries[0].snapshot
    rows = np.unique(np.concatenate([np.asarray(query.rows, np.int64) for query in queries]))
    texts = _padded_together([query.texts for query in queries])
    scores = np.empty((len(queries), len(rows)), np.float32)
    for part, images in read_pictures(matcher, snapshot, rows, chunk):
        scores[:, part] = matcher.score(images, texts).float().cpu().numpy()
    return [row[np.searchsorted(rows, query.rows)] for row, query in zip(scores, queries, strict=True)]


def _padded_together(texts: Sequence[EncodedTexts]) -> EncodedTexts:
    """Texts of one sentence each as one batch."""
    width = max(text.mask.shape[1] for text in texts)
    paddings = [width - text.mask.shape[1] for text in texts]
    return EncodedTexts(
        torch.cat([pad(text.vectors, (0, 0, 0, padding)) for text, padding in zip(texts, paddings, strict=True)]),
        torch.cat([pad(text.mask, (0, padding)) for text, padding in zip(texts, paddings, strict=True)]),
        torch.cat([text.offset for text in texts]),
        torch.cat([text.asked for text in texts]),
    )
