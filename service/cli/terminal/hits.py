"""Search results, printed for people."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from statistics import fmean
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from service.cli.terminal.output import print_note, print_table, shortened, visible
from service.cli.terminal.picture_cells import date_cell, name_cell, tags_cell

if TYPE_CHECKING:
    from regard_client import Client
    from regard_client.answers import CaptionHit, CaptionsAnswer, PictureHit, SimilarAnswer, TextAnswer

LONGEST_SHOWN = 100


def thumbnails_of(client: "Client", hits: "list[PictureHit]") -> dict[str, str]:
    """Image id -> control sequence that shows the thumbnail in this terminal; empty if it cannot show pictures."""
    if not (hits and sys.stdout.isatty()):
        return {}
    from regard_client import RegardError
    from service.cli.terminal.pictures import drawn_small, terminal_protocol

    shown: dict[str, str] = {}
    protocol = terminal_protocol()
    for image_id in [hit["image_id"] for hit in hits if protocol and hit["thumbnail_url"]]:
        with suppress(RegardError):  # if it was just deleted, its row is shown without a thumbnail
            assert protocol is not None
            shown[image_id] = drawn_small(client.thumbnail(image_id), protocol)
    return shown


def print_readings(answer: Mapping[str, Any]) -> None:
    """Print how misspelt words were read, the unknown words unless a text matches, the note, and suggested options."""
    if read_as := answer.get("read_as"):
        print(f"read as: {', '.join(f'{word} > {read}' for word, read in read_as.items())}")
    in_texts = any("text" in hit.get("found_by", ()) for hit in answer.get("results", ()))
    if (unknown := answer.get("unknown_words")) and not in_texts:
        print(f"unknown words: {', '.join(unknown)}")
    if note := answer.get("note"):
        print(note)
    if suggestion := answer.get("suggestion"):
        ends = {"--since": suggestion["taken_at"]["gte"], "--until": suggestion["taken_at"]["lte"]}
        options = " ".join(f"{option} {date}" for option, date in ends.items() if date)
        print(f"only pictures of that time: ask for “{suggestion['query']}” with {options}")


def without_misleading_probabilities(answer: "TextAnswer") -> "list[PictureHit]":
    """The results; without probabilities, which assume that some picture matches, unless the pictures do match."""
    if answer.get("matched_by_pictures"):
        return answer["results"]
    return [{**hit, "probability": None} for hit in answer["results"]]


def print_picture_hits(
    hits: "list[PictureHit]",
    left_out: int = 0,
    thumbnails: Mapping[str, str] = MappingProxyType({}),
    filtered: bool = False,
) -> None:
    """Print a table of the pictures found, and below it any thumbnails, near-duplicates and explanations.

    `filtered`: whether the search had a filter.
    """
    if not hits:
        print_nothing(left_out, filtered)
        return
    columns = ["rank", "score", "probability", "name", "date", "tags", "word", "found", "id"]
    rows = [
        [
            str(hit["rank"]),
            "" if hit["score"] is None else f"{hit['score']:.3f}",
            format_probability(hit),
            name_cell(hit["filename"]),
            date_cell(hit["taken_at"]),
            tags_cell(hit["tags"]),
            strongest_word(explanation_of(hit), [explanation_of(other) for other in hits if other is not hit]),
            "by its text" if "text" in hit["found_by"] else "",
            hit["image_id"],
        ]
        for hit in hits
    ]
    print_filled_columns(columns, rows)
    for hit in hits:
        lines = explanation_lines(explanation_of(hit))
        if alike := hit.get("near_duplicates"):
            lines = [f"and alike: {', '.join(visible(one['filename']) for one in alike)}", *lines]
        if lines or hit["image_id"] in thumbnails:
            print(f"\n{hit['rank']} {visible(hit['filename'])}")
        if hit["image_id"] in thumbnails:
            print(thumbnails[hit["image_id"]])
        for line in lines:
            print(line)


def print_caption_hits(hits: "list[CaptionHit]", left_out: int = 0, filtered: bool = False) -> None:
    """Print a table of the captions found, and below it any explanations. `filtered`: whether the search had a
    filter."""
    if not hits:
        print_nothing(left_out, filtered)
        return
    rows = [
        [
            str(hit["rank"]),
            f"{hit['score']:.3f}",
            format_probability(hit),
            shortened(hit["text"], LONGEST_SHOWN),
            hit["image_id"],
        ]
        for hit in hits
    ]
    print_filled_columns(["rank", "score", "probability", "caption", "id"], rows)
    for hit in hits:
        if lines := explanation_lines(explanation_of(hit)):
            print(f"\n{hit['rank']} {shortened(hit['text'], LONGEST_SHOWN)}", *lines, sep="\n")


def print_loading(answer: "TextAnswer | CaptionsAnswer | SimilarAnswer") -> None:
    """Print a note if the query had to wait for its model to load."""
    if load := answer["timings_ms"].get("load"):
        print_note(f"the model {answer['model']} was loaded first, in {load / 1000:.1f} s; later queries do not wait")


def print_nothing(left_out: int, filtered: bool = False) -> None:
    """Print that there is no result, and whether a limit or a filter is the reason."""
    if left_out:
        print(f"nothing matches well enough: {left_out} candidates left out")
    else:
        print("nothing found among the pictures with these tags and dates" if filtered else "nothing found")


def print_filled_columns(columns: list[str], rows: list[list[str]]) -> None:
    """Print a table without the columns that are empty in every row."""
    filled = [n for n in range(len(columns)) if any(row[n] for row in rows)]
    print_table(*(columns[n] for n in filled), rows=[[row[n] for n in filled] for row in rows])


def format_probability(hit: "PictureHit | CaptionHit") -> str:
    """The probability of a result in percent; empty for a model without calibration."""
    return "" if hit["probability"] is None else f"{hit['probability']:.0%}"


def explanation_of(hit: "PictureHit | CaptionHit") -> dict[str, Any]:
    """The explanation of a result; empty if none was requested."""
    return dict(hit.get("explanation") or {})


def word_name(word: Mapping[str, Any]) -> str:
    """A word of an explanation; "no cars" for one that the question rules out."""
    return f"no {word['text']}" if word.get("excluded") else str(word["text"])


def strongest_word(explanation: dict[str, Any], others: Sequence[dict[str, Any]] = ()) -> str:
    """The content word (any word if there is none) that adds most to the score compared with its mean in the other
    results, with the difference; empty without contributions.

    Contributions are not compared with zero, which has no meaning for a score, unless there are no other results.
    """
    contributions, words = explanation.get("contributions"), explanation.get("words", ())
    candidates = [n for n, word in enumerate(words) if word.get("content")]
    candidates = candidates or [n for n, word in enumerate(words) if not word["special"]]
    if not contributions or not candidates:
        return ""
    beside = [other["contributions"] for other in others if other.get("contributions")]
    above = [contributions[n] - (fmean(each[n] for each in beside) if beside else 0.0) for n in range(len(words))]
    number = max(candidates, key=above.__getitem__)
    return f"{word_name(words[number])} {above[number]:+.3f}"


def explanation_lines(explanation: dict[str, Any]) -> list[str]:
    """A line for each word: its contribution to the score, and the region with the largest share of it, or the most
    attention in a model without shares.

    The start and end tokens share a last line, so that the contributions add up to the score. A text match, or a model
    that does not explain words, gives a single line.
    """
    if explanation.get("kind") == "text":
        return [f"  found by its text alone: {', '.join(word['text'] for word in explanation['words'])}"]
    lines = []
    by_region = explanation.get("shares") or explanation.get("attention")
    if explanation and explanation["contributions"] is None and not by_region:
        return ["  This model's score is no sum over the words."]
    for number, word in enumerate(explanation.get("words", ())):
        if word["special"]:
            continue
        line = f"  {word_name(word)}"
        if explanation["contributions"] is not None:
            line += f" {explanation['contributions'][number]:+.3f}"
        if by_region:
            takes_away = word.get("excluded") and explanation.get("shares")
            best = min if takes_away else max
            region = explanation["regions"][by_region[number].index(best(by_region[number]))]
            line += f" {region['label']}"
            if region["box"] is not None:
                line += f" [{', '.join(f'{edge:.0f}' for edge in region['box'])}]"
        lines.append(line)
    marks = [number for number, word in enumerate(explanation.get("words", ())) if word["special"]]
    if marks and explanation["contributions"] is not None:
        added = sum(explanation["contributions"][number] for number in marks)
        texts = dict.fromkeys(explanation["words"][number]["text"] for number in marks)
        lines.append(f"  ({' and '.join(texts)}) {added:+.3f}")
    return lines
