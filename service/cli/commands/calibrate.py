"""What a model's scores mean, found and kept beside its weights: calibrate."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from service.cli.commands.evaluate import Captions, Chosen, Features, Precomp, captioned
from service.cli.output import AsJson, Device, note, print_json, print_table

app = typer.Typer()


@app.command()
def calibrate(
    folder: Annotated[Path, typer.Argument(exists=True, file_okay=False, help="Folder of a model.")],
    features: Features = None,
    captions: Captions = None,
    precomp: Precomp = None,
    split: Annotated[str | None, typer.Option(help="Split to fit on and judge by; never the one trained on.")] = "dev",
    bank_split: Annotated[str, typer.Option(help="Split whose captions the bank against hubs is made of.")] = "train",
    bank: Annotated[int, typer.Option(min=1, help="How many typical sentences stand for them.")] = 160,
    best: Annotated[int, typer.Option(min=1, help="How many of the highest values with it count.")] = 2,
    share: Annotated[float, typer.Option(min=0, max=1, help="How much hubs are lowered; 0: not at all.")] = 0.4,
    by: Annotated[
        Literal["embeddings", "scores"], typer.Option(help="What tells hubs: stage one, or the model's own scores.")
    ] = "embeddings",
    held_out: Annotated[float, typer.Option(min=0, max=1, help="Share of the pictures to judge by.")] = 0.5,
    seed: Annotated[int, typer.Option(help="Of the bank's, the halves' and the galleries' drawing.")] = 0,
    device: Device = "auto",
    as_json: AsJson = False,
) -> None:
    """Make a model's scores probabilities. Writes calibration.json beside its weights, which gives it a new digest."""
    from models.evaluation.fit_calibration import CalibrationPlan  # noqa: PLC0415 - PyTorch comes with it
    from models.evaluation.fit_calibration import calibrate as found  # noqa: PLC0415
    from models.matching.checkpoint import load_uncalibrated, save_calibration  # noqa: PLC0415
    from service.api.services import device_of  # noqa: PLC0415

    plan = CalibrationPlan(share=share, similarity=by, neighbours=best, bank_size=bank, held_out=held_out, seed=seed)
    matcher = load_uncalibrated(folder, device_of(device))
    data = captioned(precomp, features, captions, Chosen(split))
    reads = matcher.extractor_digest
    if data.extractor_digest != reads:
        raise ValueError(f"{folder} reads features of detector {reads}, these are of {data.extractor_digest}")
    sentences = sentences_of(precomp, captions, bank_split) if share > 0 else []
    calibration, hubs_bank, report = found(matcher, data, sentences, plan)
    report["digest"] = save_calibration(folder, calibration, hubs_bank)
    if as_json:
        print_json(report)
    else:
        print_report(report)
        note(f"calibration.json is in {folder}; views of it are built anew")


def sentences_of(precomp: Path | None, captions: Path | None, split: str) -> list[str]:
    """All captions of a split: of a folder in SCAN's layout, or of a captions file."""
    from models.datasets.captions import read_captions  # noqa: PLC0415
    from models.datasets.scan_precomp import read_precomp  # noqa: PLC0415

    if precomp is not None:
        return read_precomp(precomp, split).sentences()[0]
    assert captions is not None  # without it there were no pictures either
    return [text for line in read_captions(captions, split) for text in line.captions]


def print_report(report: dict[str, Any]) -> None:
    """Recall with and without hubs, then what was predicted for pictures not fitted on, and what was so."""
    fitted, kept = report["pictures"]["fitted"], report["pictures"]["held_out"]
    print(f"{report['model']} {report['digest']}: fitted on {fitted} pictures, judged by {kept} others")
    rows = [[half, *(f"{value:.1f}" for value in sums.values())] for half, sums in report["rsum"].items()]
    print_table("rsum", "hubs left in", "as served", rows=rows)
    for direction, what in (("text", "pictures for a sentence"), ("image", "sentences for a picture")):
        for size, found in report["held_out"][direction].items():
            print(f"\n{what}, {size} pictures: calibration error {found['error']:.3f} of {found['answers']} answers")
            print_table(
                "from",
                "predicted",
                "observed",
                "answers",
                rows=[
                    [f"{row['from']:.1f}", f"{row['predicted']:.3f}", f"{row['observed']:.3f}", str(row["count"])]
                    for row in found["reliability"]
                ],
            )
