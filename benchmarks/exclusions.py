"""Questions that rule something out ("a beach without people"): what they find as they are typed, and as they are read.

python -m benchmarks.exclusions --model bfan-equal --features FEATURES --captions flickr8k/captions.jsonl

"X without Y" is asked for every pair of NOUNS of which at least five pictures show X without Y and five show both. A
picture shows what one of its captions names. Every pair is scored; of the first ten pictures, the share that is right
(X and no Y), that shows X, and that shows Y is printed for each half of the split.
"""

import argparse
from collections.abc import Mapping, Sequence
from itertools import permutations
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from torch import Tensor

from benchmarks.boxed_tables import table
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import half_slices, read_captions
from models.datasets.feature_store import open_features
from models.evaluation.evaluate import encode_pictures
from models.matching.matcher import Matcher
from service.model_loading import load_model_as_served
from service.search.wording.exclusions import EXCLUDED_WEIGHT, parts_of
from service.settings import Settings

FIRST, LEAST = 10, 5
WEIGHTS = (0.25, EXCLUDED_WEIGHT, 1.0)
# The words of captions for what a noun names, the noun itself with its article first.
NOUNS = {
    phrase: frozenset(words.split())
    for phrase, words in {
        "a man": "man men man's guy guys male",
        "a woman": "woman women lady ladies female",
        "a boy": "boy boys",
        "a girl": "girl girls",
        "a dog": "dog dogs puppy puppies",
        "a child": "child children kid kids toddler boy boys girl girls baby",
        "people": "people person man men woman women boy boys girl girls child children kid kids guy lady group crowd",
        "a ball": "ball balls football basketball soccer tennis",
        "water": "water ocean sea lake river pool waves wave stream puddle",
        "snow": "snow snowy",
        "a beach": "beach shore",
        "a street": "street road sidewalk city",
        "grass": "grass grassy field lawn",
        "a bicycle": "bicycle bicycles bike bikes biker cyclist",
        "a hat": "hat hats cap",
        "a car": "car cars truck van",
        "a tree": "tree trees woods forest",
        "a mountain": "mountain mountains",
        "a rock": "rock rocks rocky boulder cliff",
        "a building": "building buildings house",
        "a skateboard": "skateboard skateboarder skateboarding",
        "a helmet": "helmet helmets",
        "sunglasses": "sunglasses",
        "a bench": "bench benches",
        "a boat": "boat boats canoe kayak",
    }.items()
}


def shown(captions: Sequence[Sequence[str]]) -> np.ndarray:
    """Whether one of each picture's captions names each noun, [K, N]."""
    words = [set(" ".join(each).lower().replace(".", " ").replace(",", " ").split()) for each in captions]
    return np.array([[not names.isdisjoint(each) for names in NOUNS.values()] for each in words])


@torch.no_grad()
def scores_of(matcher: Matcher, data: CaptionedFeatures, sentences: Sequence[str]) -> Tensor:
    """The score of every sentence with every picture, [Q, K]."""
    images, _ = encode_pictures(matcher, data, slice(0, len(data)), 256)
    parts = [sentences[start : start + 256] for start in range(0, len(sentences), 256)]
    return torch.cat([matcher.score_in_blocks(images, matcher.encode_sentences(part)[0]) for part in parts])


def questions_among(shows: np.ndarray) -> list[tuple[int, int]]:
    """The pairs (X, Y) of nouns to be asked for among these pictures."""
    return [
        (x, y)
        for x, y in permutations(range(shows.shape[1]), 2)
        if min((shows[:, x] & shows[:, y]).sum(), (shows[:, x] & ~shows[:, y]).sum()) >= LEAST
    ]


def shares_of(rankings: Mapping[tuple[int, int], Sequence[int]], shows: np.ndarray) -> list[str]:
    """Of the first pictures of each ranking: the mean share that is right, that shows X, and that shows Y."""
    first = np.array([shows[list(ranking[:FIRST])][:, pair] for pair, ranking in rankings.items()])
    x, y = first[..., 0], first[..., 1]
    return [f"{shares.mean():.2f}" for shares in (x & ~y, x, y)]


def main() -> None:
    """Print two Markdown tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--features", type=Path, required=True)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    args = parser.parse_args()
    matcher = load_model_as_served(args.model, Settings(device="cpu"))
    data = CaptionedFeatures.join(open_features(args.features), read_captions(args.captions, args.split))
    shows, nouns = shown(data.captions), list(NOUNS)
    pairs = list(permutations(range(len(nouns)), 2))
    alone = dict(zip(nouns, scores_of(matcher, data, nouns), strict=True))
    typed = [f"{nouns[x]} without {nouns[y]}" for x, y in pairs]
    forms = {
        "as typed": scores_of(matcher, data, typed),
        "X": torch.stack([alone[parts_of(question).wanted] for question in typed]),
        **{f"X less {w} Y": torch.stack([weighted(question, alone, w) for question in typed]) for w in WEIGHTS},
    }
    rows = []
    for half, pictures in half_slices(len(data)).items():
        asked = [pairs.index(pair) for pair in questions_among(shows[pictures])]
        for form, scores in forms.items():
            orders = scores[asked][:, pictures].argsort(dim=1, descending=True).tolist()
            rankings = dict(zip([pairs[n] for n in asked], orders, strict=True))
            rows.append([f"{half}, {len(asked)} questions", form, *shares_of(rankings, shows[pictures])])
    print_table("half", "read as", "right", "shows X", "shows Y", rows=rows)
    print_table(
        "question", "as typed", "as read", "any picture", rows=rows_of_exclusions_alone(matcher, data, shows, alone)
    )


def weighted(question: str, alone: Mapping[str, Tensor], weight: float) -> Tensor:
    """The scores of what a question wants, less `weight` times those of what it rules out."""
    wanted, excluded = parts_of(question)
    return alone[wanted] - weight * torch.stack([alone[thing] for thing in excluded]).sum(0)


def rows_of_exclusions_alone(
    matcher: Matcher, data: CaptionedFeatures, shows: np.ndarray, alone: Mapping[str, Tensor]
) -> list[list[str]]:
    """For questions that only rule something out: the share of the first pictures that shows it, and of all."""
    rows = []
    for template in ("no {}", "photos without {}"):
        typed = scores_of(matcher, data, [template.format(noun) for noun in NOUNS])
        read = torch.stack([-alone[parts_of(template.format(noun)).excluded[0]] for noun in NOUNS])
        firsts = [scores.topk(FIRST, dim=1).indices.tolist() for scores in (typed, read)]
        shares = [np.mean([shows[first, y].mean() for y, first in enumerate(each)]) for each in firsts]
        rows.append([template.format("Y"), *(f"{share:.2f}" for share in (*shares, shows.mean()))])
    return rows


def print_table(*columns: str, rows: list[list[str]]) -> None:
    """Print a Markdown table, and an empty line."""
    Console().print(table(*columns, rows=rows), "", sep="\n", markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
