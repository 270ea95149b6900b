"""Look at one picture here, without a server: what is in it, and which region answers which word."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.commands.search import reasons
from service.cli.output import AsJson, Detector, Device, Model, print_json, print_table
from service.cli.settings_options import read_settings

if TYPE_CHECKING:
    from service.api.services import Loaded
    from service.storage.region_records import PictureFeatures

app = typer.Typer()

Picture = Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A picture file.")]


@app.command()
def detect(picture: Picture, detector: Detector = None, device: Device = "auto", as_json: AsJson = False) -> None:
    """Find the regions of a picture."""
    from service.api.services import detector_of, device_of  # noqa: PLC0415 - PyTorch comes with it

    extractor = detector_of(detector, device_of(device))
    found, size = found_in_file(extractor, picture)
    regions = [{"box": region.box, "label": region.label, "confidence": region.confidence} for region in found.regions]
    if as_json:
        print_json({"width": size[0], "height": size[1], "extractor": extractor.digest, "regions": regions})
        return
    rows = [
        [region.label, f"{region.confidence or 0:.2f}", ", ".join(f"{edge:.0f}" for edge in region.box or ())]
        for region in found.regions
    ]
    print_table("label", "confidence", "box", rows=rows)


@app.command()
def explain(
    sentence: Annotated[str, typer.Argument(help="What the picture might show.")],
    picture: Picture,
    model: Model = None,
    detector: Detector = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Say which region answers which word. Scores a sentence with a picture file, without a server."""
    from service.api.services import Loaded  # noqa: PLC0415

    given = {"device": device, "detector": detector, "models": model}
    settings = read_settings({name: value for name, value in given.items() if value is not None})
    loaded = Loaded.from_settings(settings, stored=False)
    found, _ = found_in_file(loaded.extractor, picture)
    answer = explained_pair(loaded, sentence, found)
    if as_json:
        print_json(answer)
        return
    print(f"{answer['score']:.3f}  {answer['model']}")
    for line in reasons(answer["explanation"]):
        print(line)


def found_in_file(extractor: Any, path: Path) -> "tuple[PictureFeatures, tuple[int, int]]":
    """The regions of a picture file, decoded as an upload is, and its upright size."""
    from service.media.decode_pool import DecodeFailed, DecodePool  # noqa: PLC0415
    from service.storage.region_records import detected_features  # noqa: PLC0415

    with DecodePool.from_settings(read_settings({}), workers=1) as pool:
        try:
            decoded = pool.decode(path)
        except DecodeFailed as failed:
            raise ValueError(f"{path}: {failed.reason}") from None
    scale = decoded.width / decoded.picture.width, decoded.height / decoded.picture.height
    found = detected_features(extractor.extract([decoded.picture]), scale, extractor.labels)
    return found, (decoded.width, decoded.height)


def explained_pair(loaded: "Loaded", sentence: str, found: "PictureFeatures") -> dict[str, Any]:
    """Score and reasons of one sentence with one picture, by the default model."""
    from service.api.schemas.results import ExplanationAnswer  # noqa: PLC0415
    from service.search.explain import explain_pair  # noqa: PLC0415

    name, matcher = next(iter(loaded.matchers.items()))
    images, _ = matcher.encode_regions(found.as_batch())
    words, _ = matcher.encode_sentences([sentence])
    why = explain_pair(matcher.explain(images, words), 0, 0, matcher.words(sentence), found)
    return {
        "model": name,
        "score": float(matcher.score(images, words)[0, 0]),
        "unknown_words": matcher.unknown_words(sentence),
        "explanation": ExplanationAnswer.model_validate(why).model_dump(mode="json"),
    }
