"""Make models and measure them: extract, train, evaluate."""

import json
from dataclasses import MISSING, asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from models.recipes import RECIPES, Recipe
from service.commands.shared import AsJson, Detector, Device, note, print_json, print_table, progress
from service.folders import picture_files

if TYPE_CHECKING:
    from models.dataset import CaptionedFeatures
    from models.extractor import Extractor

app = typer.Typer()
R = TypeVar("R")

FIELDS = ", ".join(
    f"{field.name}={json.dumps(field.default)}" for field in fields(Recipe) if field.default is not MISSING
)
TRAINED = f"""Recipes of models are called MODEL-DATA. DATA is flickr8k (small data), f30k or coco (as in the papers).
MODEL is one of {", ".join(sorted({recipe.model for recipe in RECIPES.values()}))}; camp-released-fusion-f30k is a stage
between two.

A recipe's fields, for --set, with what they are unless the recipe says otherwise: {FIELDS}.

OUT gets the best weights so far (best), all that is needed to go on (last.pt), and the course of it: log.jsonl, and
tensorboard where that is installed. It stops after `patience` validations without a better sum of recalls."""

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


@app.command(epilog=TRAINED)
def train(
    recipe: Annotated[str, typer.Argument(help="`backbone`, `detector`, or a recipe for a matching model.")],
    out: Out,
    captions: Captions = None,
    features: Features = None,
    precomp: Precomp = None,
    start: Annotated[
        Path | None, typer.Option("--from", exists=True, file_okay=False, help="Weights that the recipe starts from.")
    ] = None,
    word_vectors: Annotated[
        Path | None,
        typer.Option(exists=True, dir_okay=False, help="Vectors that words start from: GloVe's or word2vec's text."),
    ] = None,
    backbone: Annotated[Path | None, typer.Option(help="Its weights, for backbone and detector.")] = None,
    teacher: Annotated[Path | None, typer.Option(help="For the detector: YOLOX as ONNX.")] = None,
    split: Annotated[str, typer.Option(help="Split of the captions to learn from.")] = "train",
    dev: Annotated[str, typer.Option(help="Split to validate on.")] = "dev",
    change: Annotated[
        list[str] | None, typer.Option("--set", help="Change the recipe: name=value, repeatable.")
    ] = None,
    device: Device = "auto",
) -> None:
    """Train the detector, its backbone or a model. A run that was stopped goes on where it was."""
    if recipe in ("backbone", "detector"):
        if backbone is None or captions is None:
            raise typer.BadParameter(f"the {recipe} is trained with --captions and --backbone")
        if recipe == "backbone":
            tune_backbone(captions, (split, dev), backbone, out, change or [], device)
        elif teacher is None:
            raise typer.BadParameter("the detector is trained with --teacher")
        else:
            _train_detector(captions, split, backbone, teacher, out, change or [], device)
        return
    data = [_captioned(precomp, features, captions, name) for name in (split, dev)]
    _train_matcher(recipe, data, out, change or [], device, start, word_vectors)


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
        data = _captioned(precomp, features, captions, split)
        if data.extractor_digest != matcher.extractor_digest:
            raise ValueError(
                f"{model} reads features of detector {matcher.extractor_digest}, these are of {data.extractor_digest}"
            )
        report = measured(matcher, data, fold5=fold5)
    if as_json:
        print_json(report)
    else:
        print_report(report)


def _captioned(
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


def changed(recipe: R, changes: list[str]) -> R:
    """The recipe with fields replaced by name=value; ValueError names one that it has not."""
    fields = asdict(recipe)  # type: ignore[call-overload]
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        if not equals or name not in fields:
            raise ValueError(f"--set {change}: write name=value, with a name among {', '.join(fields)}")
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        values[name] = tuple(value) if isinstance(value, list) else value
    return replace(recipe, **values)  # type: ignore[type-var]


def _train_detector(
    captions: Path, split: str, backbone: Path, teacher: Path, out: Path, changes: list[str], device: str
) -> None:
    from models.dataset import read_captions  # noqa: PLC0415
    from models.detector_recipe import DetectorRecipe  # noqa: PLC0415
    from models.train_detector import train_detector  # noqa: PLC0415
    from service.bootstrap import device_of  # noqa: PLC0415

    folder = captions.parent
    train_detector(
        changed(DetectorRecipe(), changes),
        photographs={line.image: folder / line.image for line in read_captions(captions, split)},
        backbone_file=backbone,
        teacher_file=teacher,
        out=out,
        device=device_of(device),
    )


def tune_backbone(
    captions: Path, splits: tuple[str, str], backbone: Path, out: Path, changes: list[str], device: str
) -> None:
    """Tune a backbone with a progress bar; ValueError where `out` holds another tuning."""
    from models.dataset import read_captions  # noqa: PLC0415
    from models.logs import written  # noqa: PLC0415
    from models.tune_backbone import Tuning  # noqa: PLC0415
    from models.tuning_recipe import TuningRecipe  # noqa: PLC0415
    from service.bootstrap import device_of  # noqa: PLC0415

    train, dev = (read_captions(captions, split) for split in splits)
    recipe = changed(TuningRecipe(), changes)
    tuning = Tuning(recipe, captions.parent, train, dev, backbone, out, device_of(device))
    with written(out) as log, progress() as bars:
        task = bars.add_task("tuning", total=tuning.total)

        def logged(entry: dict[str, Any]) -> None:
            bars.update(task, completed=entry["step"])
            log(entry)

        tuning.run(logged)


def _train_matcher(
    name: str,
    data: "list[CaptionedFeatures]",
    out: Path,
    changes: list[str],
    device: str,
    start: Path | None,
    word_vectors: Path | None,
) -> None:
    from models.checkpoint import load_matcher  # noqa: PLC0415
    from models.logs import written  # noqa: PLC0415
    from models.train import Training  # noqa: PLC0415
    from service.bootstrap import device_of  # noqa: PLC0415

    if name not in RECIPES:
        raise ValueError(f"no recipe is called {name}; there are detector, {', '.join(RECIPES)}")
    initial = load_matcher(start) if start else None
    recipe = changed(RECIPES[name], changes)
    training = Training(recipe, data[0], data[1], out, device_of(device), initial, word_vectors)
    if word_vectors is not None:
        vocabulary = training.matcher.vocabulary
        note(f"{training.found_words} of {len(vocabulary)} words start from {word_vectors}")
        if recipe.near is not None:
            note(f"{len(vocabulary.near)} other words are read as near ones")
    with written(out) as log, progress() as bars:
        task = bars.add_task("training", total=training.total_steps)

        def logged(entry: dict[str, Any]) -> None:
            bars.update(task, completed=entry["step"])
            log(entry)

        training.run(logged)


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
