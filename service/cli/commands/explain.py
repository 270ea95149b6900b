"""`regard explain`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.find_regions import decode_picture, find_regions
from service.cli.hits import explanation_lines
from service.cli.options import AsJson, DetectorFolder, Device, Model, PictureFile
from service.cli.output import print_json, show_progress
from service.cli.settings_options import read_settings
from service.errors import UserError, user_input
from service.model_names import check_detector, check_models

if TYPE_CHECKING:
    from service.model_loading import LoadedModels
    from service.storage.region_records import PictureFeatures


def explain(
    sentence: Annotated[str, typer.Argument(help="What the picture might show.")],
    picture: PictureFile,
    model: Model = None,
    detector: DetectorFolder = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which region answers which word. Scores a sentence with a picture file, without a server."""
    given = {"device": device, "detector": detector, "models": model}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    if not sentence.strip():
        raise UserError("the sentence has no words; say what the picture might show")
    check_models(settings.models)
    check_detector(settings.detector)
    decoded = decode_picture(picture)
    with show_progress() as progress, progress.activity("explaining"):
        from service.model_loading import LoadedModels  # noqa: PLC0415 - PyTorch comes with it

        with user_input():
            loaded = LoadedModels.from_settings(settings, stored=False)
        answer = explain_sentence(loaded, sentence, find_regions(loaded.extractor, decoded))
    if as_json:
        print_json(answer)
        return
    print(f"{answer['score']:.3f}  {answer['model']}")
    for line in explanation_lines(answer["explanation"]):
        print(line)


def explain_sentence(loaded: "LoadedModels", sentence: str, picture: "PictureFeatures") -> dict[str, Any]:
    """Score and explanation of a sentence with a picture by the default model."""
    from service.api.schemas.results import ExplanationAnswer  # noqa: PLC0415
    from service.search.explain import explain_pair  # noqa: PLC0415

    name, matcher = next(iter(loaded.matchers.items()))
    images, _ = matcher.encode_regions(picture.as_batch())
    words, _ = matcher.encode_sentences([sentence])
    explanation = explain_pair(matcher.explain(images, words), 0, 0, matcher.words(sentence), picture)
    return {
        "model": name,
        "score": float(matcher.score(images, words)[0, 0]),
        "unknown_words": matcher.unknown_words(sentence),
        "read_as": matcher.near_words(sentence),
        "explanation": ExplanationAnswer.model_validate(explanation).model_dump(mode="json"),
    }
