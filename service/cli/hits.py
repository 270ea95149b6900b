"""Results of searches, printed for people."""

from typing import TYPE_CHECKING, Any

from service.cli.output import print_table

if TYPE_CHECKING:
    from service.api.schemas.results import CaptionHit, PictureHit


def print_picture_hits(hits: "list[PictureHit]", url: str, left_out: int = 0) -> None:
    """Print the pictures found, with their explanations where there are any."""
    if not hits:
        print(f"nothing matches well enough: {left_out} candidates left out" if left_out else "nothing found")
    for hit in hits:
        address = hit.image_id if hit.url is None else f"{url}{hit.url}"
        score = f"{'-':>7}" if hit.score is None else f"{hit.score:7.3f}"
        by_text = "  (by its text)" if "text" in hit.found_by else ""
        print(f"{hit.rank:3}  {score}  {format_probability(hit)}{hit.filename}  {address}{by_text}")
        if hit.near_duplicates:
            print(f"       and alike: {', '.join(one.filename for one in hit.near_duplicates)}")
        for line in explanation_lines(hit.explanation.model_dump() if hit.explanation else {}):
            print(f"       {line}")


def print_caption_hits(hits: "list[CaptionHit]") -> None:
    """Print the captions found."""
    if not hits:
        print("nothing found")
        return
    rows = [[str(hit.rank), f"{hit.score:.3f}", format_probability(hit) + hit.text] for hit in hits]
    print_table("rank", "score", "caption", rows=rows)


def format_probability(hit: "PictureHit | CaptionHit") -> str:
    """The probability of a result in percent; empty where its model has no calibration."""
    return "" if hit.probability is None else f"{hit.probability:4.0%} likely  "


def explanation_lines(explanation: dict[str, Any]) -> list[str]:
    """A line for each word of the sentence: its contribution to the score, and the region with the largest share of it;
    where the model has no shares, the region that it attends to most. One line for what the text alone found."""
    if explanation.get("kind") == "text":
        return [f"  found by its text alone: {', '.join(word['text'] for word in explanation['words'])}"]
    lines = []
    by_region = explanation.get("shares") or explanation.get("attention")
    for number, word in enumerate(explanation.get("words", ())):
        if word["special"]:
            continue
        line = f"  {word['text']}"
        if explanation["contributions"] is not None:
            line += f" {explanation['contributions'][number]:+.3f}"
        if by_region:
            region = explanation["regions"][by_region[number].index(max(by_region[number]))]
            line += f" {region['label']}"
            if region["box"] is not None:
                line += f" [{', '.join(f'{edge:.0f}' for edge in region['box'])}]"
        lines.append(line)
    return lines
