"""Recall of a running service over HTTP: from sentences to pictures, and from pictures to sentences.

Start `regard serve --data-dir DIR` on an empty DIR, then one of:
python -m benchmarks.service_recall --captions flickr8k/captions.jsonl --direction text
python -m benchmarks.service_recall --captions flickr8k/captions.jsonl --direction image --pictures 200

`text` ingests the pictures without captions and asks with every caption, matched with pictures alone; `image` ingests
them with their captions and asks with every picture. Shortlist recall is how often the right answer is reranked at all.
"""

import argparse
import json
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from rich.progress import track

from benchmarks.ingested import NOTES, ingest
from models.datasets.captions import CaptionLine, read_captions
from regard_client import Client, Picture
from service.settings import DEFAULT_URL

SHORTLIST = 100


def text_ranks(client: Client, lines: Sequence[CaptionLine], ids: dict[str, str]) -> Iterator[int | None]:
    """For every caption, the rank (from 0) of its picture; None if the shortlist lacks it."""

    def rank(question: tuple[str, str]) -> int | None:
        text, image_id = question
        answer = client.search_text(text, k=SHORTLIST, shortlist=SHORTLIST, match="pictures")
        found = [hit["image_id"] for hit in answer["results"]]
        return found.index(image_id) if image_id in found else None

    questions = [(text, ids[Path(line.image).name]) for line in lines for text in line.captions]
    with ThreadPoolExecutor(2) as pool:
        yield from track(pool.map(rank, questions), total=len(questions), description="Asking", console=NOTES)


def image_ranks(client: Client, lines: Sequence[CaptionLine], folder: Path) -> Iterator[int | None]:
    """For every picture, the rank (from 0) of the best of its captions; None if the shortlist has none."""
    for line in track(lines, description="Asking", console=NOTES):
        answer = client.search_captions(folder / line.image, k=SHORTLIST, shortlist=SHORTLIST)
        found = [hit["text"] for hit in answer["results"]]
        captions = {text.strip() for text in line.captions}
        yield next((rank for rank, text in enumerate(found) if text.strip() in captions), None)


def main() -> None:
    """Print one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--captions", type=Path, required=True)
    parser.add_argument("--split", default="dev")
    parser.add_argument("--pictures", type=int, default=1000)
    parser.add_argument("--direction", choices=["text", "image"], default="text")
    parser.add_argument("--url", default=DEFAULT_URL)
    args = parser.parse_args()
    lines, folder = read_captions(args.captions, args.split)[: args.pictures], args.captions.parent
    client = Client(args.url)
    with_captions = args.direction == "image"
    pictures = [Picture(folder / line.image, captions=line.captions if with_captions else ()) for line in lines]
    ids = ingest(client, pictures)
    ranks = list(text_ranks(client, lines, ids) if args.direction == "text" else image_ranks(client, lines, folder))
    share = {f"r{k}": 100 * sum(r is not None and r < k for r in ranks) / len(ranks) for k in (1, 5, 10, SHORTLIST)}
    print(json.dumps({"direction": args.direction, "pictures": len(lines), "questions": len(ranks), **share}))


if __name__ == "__main__":
    main()
