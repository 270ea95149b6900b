"""Features of pictures, and models measured on them: extract, evaluate."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.commands.shared import AsJson, Detector, Device, print_json, print_table, progress
from service.folders import picture_files

if TYPE_CHECKING:
    from models.dataset import CaptionedFeatures
    from models.extractor import Extractor

app = typer.Typer()

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


@app.command()
def extract(
    images: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of pictures.")],
    out: Out,
    detector: Detector = None,
    device: Device = "auto",
) -> None:
    """Write region features of pictures. Training and evaluation read them."""
    from service.bootstrap import detector_of, device_of  # noqa: PLC0415 - PyTorch comes with it

    extract_all(detector_of(detector, device_of(device)), dict(picture_files([images])), out)


@app.command()
def evaluate(
    images: Annotated[Path | None, typer.Option(exists=True, file_okay=False, help="Folder of pictures.")] = None,
    captions: Captions = None,
    model: Annotated[
        str, typer.Option(help="A shipped model, the folder of one, or several with + between: their mean.")
    ] = "scan-t2i-avg",
    split: Annotated[str | None, typer.Option(help="Split of the captions; all if not given.")] = None,
    features: Features = None,
    precomp: Precomp = None,
    fold5: Annotated[bool, typer.Option("--fold5", help="Also the mean of five folds of the pictures.")] = False,
    detector: Detector = None,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Measure a model on captioned pictures. Recall over every pair, and of the two stages as served."""
    import tempfile  # noqa: PLC0415

    from models.evaluate import evaluate as measured  # noqa: PLC0415
    from service.bootstrap import device_of  # noqa: PLC0415
    from service.weights import load_model  # noqa: PLC0415

    place = device_of(device)
    matcher = load_model(model, place)
    with tempfile.TemporaryDirectory() as folder:
        if precomp is None and features is None:
            features = _extracted(images, captions, split, detector, place, Path(folder))
        data = captioned(precomp, features, captions, split)
        if data.extractor_digest != matcher.extractor_digest:
            raise ValueError(
                f"{model} reads features of detector {matcher.extractor_digest}, these are of {data.extractor_digest}"
            )
        report = measured(matcher, data, fold5=fold5)
    if as_json:
        print_json(report)
    else:
        print_report(report)


def captioned(
    precomp: Path | None, features: Path | None, captions: Path | None, split: str | None
) -> "CaptionedFeatures":
    """Captioned pictures of a split: of a folder in SCAN's layout, or of extracted features and a captions file."""
    from models.dataset import CaptionedFeatures, read_captions  # noqa: PLC0415
    from models.extract import open_features  # noqa: PLC0415
    from models.layouts import read_precomp  # noqa: PLC0415

    if precomp is not None:
        return read_precomp(precomp, split or "test")
    if features is None or captions is None:
        raise typer.BadParameter("give --features, from `regard extract`, with --captions; or --precomp")
    return CaptionedFeatures.join(open_features(features), read_captions(captions, split))


def _extracted(
    images: Path | None, captions: Path | None, split: str | None, detector: Path | None, device: str, out: Path
) -> Path:
    """The folder `out`, with features of the captioned pictures."""
    from models.dataset import read_captions  # noqa: PLC0415
    from models.layouts import read_pictures  # noqa: PLC0415
    from service.bootstrap import detector_of  # noqa: PLC0415

    if images is None or captions is None:
        raise typer.BadParameter("give --images or --features, with --captions; or --precomp")
    extract_all(detector_of(detector, device), read_pictures(images, read_captions(captions, split)), out)
    return out


def extract_all(extractor: "Extractor", photographs: dict[str, Path], out: Path) -> None:
    """Extract with a progress bar. ValueError where `out` was begun with other pictures or another detector."""
    from models.extract import extract as extracted  # noqa: PLC0415

    if not photographs:
        raise ValueError("no pictures there")
    with progress() as bars:
        task = bars.add_task("finding regions", total=len(photographs))
        for done in extracted(extractor, photographs, out):
            bars.update(task, completed=done)


def print_report(report: dict[str, Any]) -> None:
    """Recalls in percent, a line for each way of searching."""
    ways = {"every pair": report["exhaustive"]} | {f"shortlist {k}": r for k, r in report["two_stage"].items()}
    if "fold5" in report:
        ways["in five folds"] = report["fold5"]
    print(
        f"{report['model']}: {report['images']} pictures, {report['captions']} captions; recall at 1, 5, 10 in percent"
    )
    rows = [
        [
            way,
            *(
                f"{recalls[side][name]:.1f}"
                for side in ("text_to_image", "image_to_text")
                for name in ("r1", "r5", "r10")
            ),
        ]
        for way, recalls in ways.items()
    ]
    print_table("", "text: 1", "5", "10", "picture: 1", "5", "10", rows=rows)
