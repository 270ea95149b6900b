"""The effect of folder names on a search for what pictures show: hits among five, with and without them.

Start `regard serve --data-dir DIR` on an empty DIR, then
python -m benchmarks.folder_names --boxes coco-mini-80/boxes.json

The pictures are ingested without albums, and each class that three or more of them show is asked for ("a X"). Then
some of the pictures, drawn at random, are assumed to be in a folder named X. The ranking is merged with the folder in
two ways: as with a list of text matches that ranks all its pictures first, and as `service.search.fusion.fused` does.
"""

import argparse
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np
from rich.console import Console

from benchmarks.boxed_tables import table
from benchmarks.ingested import ingest
from models.datasets.coco_boxes import read_coco_boxes
from models.evaluation.short_match import LEAST_PICTURES
from models.evaluation.short_questions import FIRST
from regard_client import Client, Picture
from service.search.fusion import fused
from service.settings import DEFAULT_URL

SEEDS = range(10)
# Pictures in the folder, and the share of those that show the class that are in it; the rest do not show the class.
FOLDERS = {
    "20, drawn from all": (20, None),
    "20, half of those that show it": (20, 0.5),
    "20, all that show it": (20, 1.0),
    "8, all that show it": (8, 1.0),
}


def folder(generator: np.random.Generator, right: Sequence[int], num: int, size: int, share: float | None) -> list[int]:
    """The pictures of a folder among `num`, of which `right` show the class it is named after."""
    if share is None:
        return sorted(generator.choice(num, size, replace=False).tolist())
    inside = [place for place in right if generator.random() < share][:size]
    others = [place for place in range(num) if place not in right]
    return sorted([*inside, *generator.choice(others, size - len(inside), replace=False).tolist()])


def hits(order: Sequence[int], right: Sequence[int]) -> float:
    """Right answers among the first, as a share of those possible."""
    return len({*order[:FIRST]} & {*right}) / min(FIRST, len(right))


def main() -> None:
    """Print a Markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--boxes", type=Path, required=True)
    parser.add_argument("--url", default=DEFAULT_URL)
    args = parser.parse_args()
    objects, client = read_coco_boxes(args.boxes), Client(args.url)
    names = [Path(picture.image).name for picture in objects.pictures]
    ingest(client, [Picture(args.boxes.parent / picture.image) for picture in objects.pictures])
    rankings = {}
    for name in objects.classes:
        if len(right := objects.showing(name)) >= LEAST_PICTURES:
            results = client.search_text(f"a {name}", k=min(100, len(names)), match="pictures")["results"]
            rankings[name] = [names.index(Path(hit["filename"]).name) for hit in results], right
    rows = []
    for label, (size, share) in FOLDERS.items():
        measured = defaultdict[str, list[float]](list)
        for seed in SEEDS:
            generator = np.random.default_rng(seed)
            for ranking, right in rankings.values():
                inside = folder(generator, right, len(names), size, share)
                measured["pictures alone"].append(hits(ranking, right))
                measured["as a caption"].append(hits(fused(ranking, dict.fromkeys(inside, 1)), right))
                measured["as a folder"].append(hits(fused(ranking, {}, by_folder=inside), right))
        rows.append([label, *(f"{mean(each):.2f}" for each in measured.values())])
    Console().print(table("pictures in the folder", *measured, rows=rows), markup=False, soft_wrap=True)


if __name__ == "__main__":
    main()
