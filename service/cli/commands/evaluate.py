"""Features of pictures, and models measured on them: extract, evaluate."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.output import AsJson, Detector, Device, print_json, print_table, progress
from service.cli.picture_files import picture_files
from service.cli.settings_options import read_settings

if TYPE_CHECKING:
    from models.datasets.captioned_features import CaptionedFeatures
    from models.datasets.captions import CaptionLine
    from models.extractors.base import Extractor
    from models.matching.matcher import Matcher

app = typer.Typer()

SIDES = {"text_to_image": "text", "image_to_text": "picture"}
RECALLS = ("r1", "r5", "r10")

Captions = Annotated[
    Path | None,
    typer.Option(exists=True, dir_okay=False, help='JSON lines: {"image": .., "captions": [..], "split": ..}.'),
]
Out = Annotated[Path, typer.Option(help="Folder to write to; what was begun there goes on.")]
Features = Annotated[
    Path | None, typer.Option("--features", exists=True, file_okay=False, help="What `regard extract` wrote.")
]
Precomp = Annotated[
    Path | None,
    typer.Option("--precomp", exists=True, file_okay=False, help="Features and captions in SCAN's layout instead."),
]

KeptRegions = Annotated[
    int | None,
    typer.Option("--regions", min=1, help="Only the first regions of every picture; 1: the whole picture alone."),
]


@app.command()
def extract(
    images: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of pictures.")],
    out: Out,
    detector: Detector = None,
    device: Device = "auto",
) -> None:
    """Write region features of pictures. Training and evaluation read them."""
    from service.api.services import detector_of, device_of  # noqa: PLC0415 - PyTorch comes with it

    extract_all(detector_of(detector, device_of(device)), dict(picture_files([images])), out)


@app.command()
def evaluate(
    images: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Folder of pictures.")] = None,
    captions: Captions = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="A shipped model, the folder of one, or several with + between: their mean; the default if not given."
        ),
    ] = None,
    split: Annotated[str | None, typer.Option(help="Split of the captions; all if not given.")] = None,
    features: Features = None,
    precomp: Precomp = None,
    first: Annotated[int | None, typer.Option(min=1, help="Only that many pictures of the split, the first.")] = None,
    gallery: Annotated[
        list[str] | None,
        typer.Option(help="Split whose pictures stand beside those asked for, repeatable: sentence to picture alone."),
    ] = None,
    questions: Annotated[int | None, typer.Option(min=1, help="With --gallery: only the first captions.")] = None,
    regions: KeptRegions = None,
    fold5: Annotated[bool, typer.Option("--fold5", help="Also the mean of five folds of the pictures.")] = False,
    detector: Detector = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure a model on captioned pictures. Recall over every pair, and of the two stages as served."""
    import tempfile  # noqa: PLC0415

    from models.evaluation.evaluate import evaluate as measured  # noqa: PLC0415
    from models.evaluation.evaluate import evaluate_gallery  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415
    from service.model_loading import load_model  # noqa: PLC0415

    if gallery and (precomp or fold5):
        raise typer.BadParameter("--gallery goes with --captions, and not with --fold5")
    if questions and not gallery:
        raise typer.BadParameter("--questions goes with --gallery")
    chosen, place = Chosen(split, tuple(gallery or ()), first, regions), device_of(device)
    matcher = load_model(model or read_settings({}).models[0], place)
    with tempfile.TemporaryDirectory() as folder:
        if precomp is None and features is None:
            features = _extracted(images, captions, chosen, detector, place, Path(folder))
        data = captioned(precomp, features, captions, chosen)
        check_reads(matcher, data, regions)
        if gallery:
            report = evaluate_gallery(matcher, data.first_captions(questions) if questions else data)
        else:
            report = measured(matcher, data, fold5=fold5)
    if as_json:
        print_json(report)
    else:
        print_report(report)


@dataclass(frozen=True)
class Chosen:
    """What of a captions file and of its pictures' features is looked at."""

    split: str | None = None
    gallery: tuple[str, ...] = ()
    """Splits whose pictures come after, without their captions."""
    first: int | None = None
    """Pictures of the split."""
    regions: int | None = None
    """Of each picture."""

    def lines(self, captions: Path) -> "list[CaptionLine]":
        """The pictures: those with captions, then the others of the gallery."""
        from models.datasets.captions import read_captions  # noqa: PLC0415

        asked = read_captions(captions, self.split)[: self.first]
        others = [line for split in self.gallery for line in read_captions(captions, split)]
        names = {line.image for line in asked}
        return asked + [replace(line, captions=()) for line in others if line.image not in names]


def captioned(
    precomp: Path | None, features: Path | None, captions: Path | None, chosen: Chosen
) -> "CaptionedFeatures":
    """Captioned pictures: of a folder in SCAN's layout, or of extracted features and a captions file."""
    from models.datasets.captioned_features import CaptionedFeatures  # noqa: PLC0415
    from models.datasets.feature_store import open_features  # noqa: PLC0415
    from models.datasets.scan_precomp import read_precomp  # noqa: PLC0415

    if precomp is not None:
        data = read_precomp(precomp, chosen.split or "test")
        data = data.first(chosen.first) if chosen.first else data
    elif features is None or captions is None:
        raise typer.BadParameter("give --features, from `regard extract`, with --captions; or --precomp")
    else:
        data = CaptionedFeatures.join(open_features(features), chosen.lines(captions))
    return data.first_regions(chosen.regions) if chosen.regions else data


def check_reads(matcher: "Matcher", data: "CaptionedFeatures", regions: int | None) -> None:
    """ValueError unless the model learnt from this detector's features: from as many of them, or from all."""
    made = data.extractor_digest
    if matcher.extractor_digest not in (made, made.removesuffix(f"-first-{regions}")):
        raise ValueError(f"{matcher.name} reads features of detector {matcher.extractor_digest}, these are of {made}")


def _extracted(
    images: Path | None, captions: Path | None, chosen: Chosen, detector: Path | None, device: str, out: Path
) -> Path:
    """The folder `out`, with features of the captioned pictures."""
    from models.datasets.captions import captioned_photographs  # noqa: PLC0415
    from service.api.services import detector_of  # noqa: PLC0415

    if images is None or captions is None:
        raise typer.BadParameter("give --images or --features, with --captions; or --precomp")
    extract_all(detector_of(detector, device), captioned_photographs(images, chosen.lines(captions)), out)
    return out


def extract_all(extractor: "Extractor", photographs: dict[str, Path], out: Path) -> None:
    """Extract with a progress bar. ValueError where `out` was begun with other pictures or another detector."""
    from models.datasets.feature_store import extract_features  # noqa: PLC0415

    if not photographs:
        raise ValueError("no pictures there")
    with progress() as bars:
        task = bars.add_task("finding regions", total=len(photographs))
        for done in extract_features(extractor, photographs, out):
            bars.update(task, completed=done)


def print_report(report: dict[str, Any]) -> None:
    """Recalls in percent, a line for each way of searching, and what shortlists keep."""
    ways = {"every pair": report["exhaustive"]} | {f"shortlist {k}": r for k, r in report["two_stage"].items()}
    if "fold5" in report:
        ways["in five folds"] = report["fold5"]
    print(
        f"{report['model']}: {report['images']} pictures, {report['captions']} captions; recall at 1, 5, 10 in percent"
    )
    sides = [side for side in SIDES if side in report["exhaustive"]]
    heads = [head for side in sides for head in (f"{SIDES[side]}: 1", "5", "10")] + ["sum"] * (
        "rsum" in ways["every pair"]
    )
    rows = [row for way, found in ways.items() for row in recall_rows(way, found, sides)]
    print_table("", *heads, rows=rows)
    kept = [
        [k, *(f"{report[what][k][side]:.1f}" for side in sides for what in ("shortlist_recall", "top10_kept"))]
        for k in report["shortlist_recall"]
    ]
    heads = [head for side in sides for head in (f"{SIDES[side]}: a right one", "of the best 10")]
    print("\nwhat a shortlist holds of it, in percent")
    print_table("", *heads, rows=kept)


def recall_rows(way: str, found: dict[str, Any], sides: list[str]) -> list[list[str]]:
    """A line of recalls and, where it is known, one of how far they could be off."""
    rows = [[way, *(f"{value:.1f}" for value in values_of(found, sides))]]
    if "interval" in found:
        rows.append(["", *(f"{low:.1f}-{high:.1f}" for low, high in values_of(found["interval"], sides))])
    return rows


def values_of(found: dict[str, Any], sides: list[str]) -> list[Any]:
    """Recalls, or their intervals, in the order of a line."""
    return [found[side][name] for side in sides for name in RECALLS] + ([found["rsum"]] if "rsum" in found else [])
