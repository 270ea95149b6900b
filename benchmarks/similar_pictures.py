"""Pictures like a picture: stage one's cosine beside a second stage over regions, judged by captions.

    python -m benchmarks.similar_pictures --features FEATURES --captions captions.jsonl --split dev

The similarity of two pictures is the cosine of their captions' mean MiniLM vectors. The gain of another picture is its
similarity's excess over the 95th percentile of all pairs; nDCG@10 (Jarvelin and Kekalainen, 2002) compares rankings.
The second stage takes the query's regions in the place of words: Sum-Max, the mean over regions of the best cosine with
a region of the other picture, both ways. Rankings are chosen on the first half of the pictures as queries and reported
on the second, with 95 % intervals of the paired difference to the cosine.
"""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from benchmarks.captioned_pictures import captions_parser, given_matcher, given_pictures
from models.datasets.captioned_features import CaptionedFeatures
from models.evaluation.confidence import percentile_interval, resample_counts
from models.matching.single_matcher import SingleMatcher
from models.text.pretrained_reader import shipped_reader

CUTOFF = 10
WORTH_FROM = 0.95  # share of all pairs below: one picture in twenty is an answer
NEAREST = 20  # queries whose mean score with an answer measures its hubness
BATCH = 20


def caption_similarities(captions: list[list[str]]) -> Float[Tensor, "N N"]:
    """Cosine of the mean sentence vectors of every two pictures' captions."""
    embed = shipped_reader().encoder.embed
    means = torch.stack([embed(texts).mean(0) for texts in captions])
    unit = torch.nn.functional.normalize(means, dim=1)
    return unit @ unit.T


def gains(similarities: Float[Tensor, "N N"]) -> Float[Tensor, "N N"]:
    """The gain of each other picture as an answer; 0 for the query itself."""
    others = similarities[~torch.eye(len(similarities), dtype=torch.bool)]
    worth: Tensor = (similarities - float(np.quantile(others.numpy(), WORTH_FROM))).clamp_min(0)
    return worth.fill_diagonal_(0).float()


def ndcg(scores: Float[Tensor, "Q N"], worth: Float[Tensor, "Q N"], own: Int64[Tensor, " Q"]) -> Float[Tensor, " Q"]:
    """nDCG@10 of every query, whose `own` picture is left out; NaN if no other has any gain."""
    left = torch.ones_like(scores, dtype=torch.bool).scatter_(1, own[:, None], False)
    first = scores.masked_fill(~left, -torch.inf).topk(min(CUTOFF, scores.shape[1] - 1)).indices
    discounts = 1 / torch.log2(torch.arange(first.shape[1]) + 2.0)
    best = (worth * left).topk(first.shape[1]).values
    return (worth.gather(1, first) * discounts).sum(1) / (best * discounts).sum(1)


def region_similarities(
    vectors: Float[Tensor, "N R D"], mask: Bool[Tensor, "N R"], batch: int = BATCH
) -> Float[Tensor, "N N"]:
    """Sum-Max both ways: the mean over one picture's regions of the best inner product with the other's, averaged."""
    num, regions, width = vectors.shape
    flat, one_way = vectors.reshape(-1, width), []
    for some, real in zip(torch.split(vectors, batch), torch.split(mask, batch), strict=True):
        products = (some.reshape(-1, width) @ flat.T).reshape(-1, regions, num, regions)
        best = products.masked_fill(~mask, -torch.inf).amax(3)
        one_way.append((best * real[:, :, None]).sum(1) / real.sum(1, keepdim=True))
    there = torch.cat(one_way)
    return (there + there.T) / 2


def standardised(scores: Float[Tensor, "N N"]) -> Float[Tensor, "N N"]:
    """Every query's scores with mean 0 and variance 1, so that two rankings can be added."""
    return (scores - scores.mean(1, keepdim=True)) / scores.std(1, keepdim=True)


def without_hubs(scores: Float[Tensor, "N N"]) -> Float[Tensor, "N N"]:
    """Scores less half of each answer's mean score with the queries that it is nearest to."""
    return scores - 0.5 * scores.topk(min(NEAREST, len(scores)), dim=0).values.mean(0)


@torch.no_grad()
def rankings(matcher: SingleMatcher, pictures: CaptionedFeatures) -> dict[str, Tensor]:
    """Name -> scores [N N] of every picture (columns) for every picture as a query (rows)."""
    starts = range(0, len(pictures), BATCH)
    parts = [pictures.regions(slice(start, start + BATCH)) for start in starts]
    embeddings = torch.cat([matcher.encode_regions(part)[1] for part in parts])
    cosine = embeddings @ matcher.similarity_query(embeddings).T
    projected = [matcher.reranker.project(part) for part in parts]
    vectors = torch.nn.functional.normalize(torch.cat([part.vectors for part in projected]), dim=2)
    regions = region_similarities(vectors, torch.cat([part.mask for part in projected]))
    return {
        "cosine": cosine,
        "regions": regions,
        "both": standardised(cosine) + standardised(regions),
        "regions, hubs off": without_hubs(regions),
        "both, hubs off": standardised(without_hubs(cosine)) + standardised(without_hubs(regions)),
    }


def compared_with(
    base: str, values: Mapping[str, Tensor], chosen: "np.ndarray[Any, np.dtype[np.bool_]]"
) -> dict[str, Any]:
    """Mean nDCG of every ranking over the chosen queries, and its difference to that of `base` with an interval."""
    chosen_values = {name: value.numpy()[chosen] for name, value in values.items()}
    counts = resample_counts(int(chosen.sum()))
    shares = counts / counts.sum(1, keepdims=True)
    return {
        name: {
            "ndcg": float(value.mean()),
            "difference": float((value - chosen_values[base]).mean()),
            "interval": percentile_interval(shares @ (value - chosen_values[base])),
        }
        for name, value in chosen_values.items()
    }


def main() -> None:
    """Print one JSON object."""
    args = captions_parser(__doc__).parse_args()
    torch.set_num_threads(1)
    pictures = given_pictures(args)
    worth = gains(caption_similarities([list(texts) for texts in pictures.captions]))
    scores = rankings(given_matcher(args), pictures)
    values = {name: ndcg(each, worth, torch.arange(len(each))) for name, each in scores.items()}
    is_defined = ~torch.isnan(values["cosine"]).numpy()
    is_first = np.arange(len(is_defined)) < len(is_defined) // 2
    halves = {
        "first half": compared_with("cosine", values, is_defined & is_first),
        "second half": compared_with("cosine", values, is_defined & ~is_first),
    }
    print(json.dumps({"model": args.model, "pictures": len(is_defined), **halves}, indent=1))


if __name__ == "__main__":
    main()
