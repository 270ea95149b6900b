"""`regard explain`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.find_regions import decode_picture, find_regions
from service.cli.options import AsJson, DetectorFolder, Device, PictureFile, WeightsOrNames
from service.cli.settings_options import read_settings
from service.cli.terminal.hits import explanation_lines, print_readings
from service.cli.terminal.output import print_json, show_progress
from service.errors import UserError, user_input
from service.model_names import check_detector, check_models, shown_name
from service.search.wording.parsed_query import parse_query

if TYPE_CHECKING:
    from models.matching.matcher import Matcher
    from service.media.decode_pool import DecodedPicture
    from service.search.one_pair import ExplainedPair


def explain(
    sentence: Annotated[str, typer.Argument(help="What the picture might show.")],
    picture: PictureFile,
    model: WeightsOrNames = None,
    detector: DetectorFolder = None,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Draw it to this PNG file, with a panel per content word.", dir_okay=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show which region answers which word. Scores a sentence with a picture file, without a server."""
    given = {"device": device, "detector": detector, "models": model}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    if not sentence.strip():
        raise UserError("the sentence has no words; say what the picture might show")
    if out is not None and out.suffix.lower() != ".png":
        raise UserError(f"{out}: the drawing is a PNG file; give it a name that ends in .png")
    check_models(settings.models)
    check_detector(settings.detector)
    query = parse_query(sentence)
    decoded = decode_picture(picture)
    with show_progress() as progress, progress.activity("explaining"):
        from service.model_loading import LoadedModels

        with user_input():
            loaded = LoadedModels.from_settings(settings, stored=False)
            matcher = loaded.matcher(loaded.default)
        name = loaded.default if model is None else shown_name(settings.models[0])
        from service.search.one_pair import explain_one
        from service.search.wording.query_notes import note_on

        with user_input():
            pair = explain_one(matcher, query.wanted_or_all, find_regions(loaded.extractor, decoded))
        answer = explanation_answer(name, matcher, query.wanted_or_all, pair)
        answer["note"] = note_on(query, no_english=[*answer["unknown_words"], *answer["read_as"]])
        if out is not None:
            draw_to(out, decoded, pair, f"“{sentence}”  {pair.score:.4f} by {name}")
    if as_json:
        print_json(answer)
        return
    print_readings(answer)
    print(f"{answer['score']:.3f}  {answer['model']}")
    for line in explanation_lines(answer["explanation"]):
        print(line)


def explanation_answer(name: str, matcher: "Matcher", sentence: str, pair: "ExplainedPair") -> dict[str, Any]:
    """The score and explanation of a sentence with a picture, for JSON output."""
    from service.api.schemas.results import ExplanationAnswer

    return {
        "model": name,
        "score": pair.score,
        "unknown_words": matcher.unknown_words(sentence),
        "read_as": matcher.near_words(sentence),
        "explanation": ExplanationAnswer.model_validate(pair.explanation).model_dump(mode="json"),
    }


def draw_to(path: Path, decoded: "DecodedPicture", pair: "ExplainedPair", title: str) -> None:
    """Write the explanation as a picture. UserError if the file cannot be written."""
    from service.panels import draw_explanation

    sheet = draw_explanation(decoded.picture, (decoded.width, decoded.height), pair.explanation, title)
    try:
        sheet.save(path, "PNG")
    except OSError as fault:
        raise UserError(f"{path}: {fault.strerror or fault}") from fault
