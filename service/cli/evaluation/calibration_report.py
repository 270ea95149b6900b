"""Tables and notes of `regard calibrate` and `regard calibrate-ensemble`."""

from typing import Any

from service.cli.terminal.output import print_note, print_table

TRAINED_ON = "train"  # the default split of `regard train`
DIRECTIONS = {"text": "pictures for a sentence", "image": "sentences for a picture"}


def note_trained_on(split: str | None) -> None:
    """Print a note that probabilities would be overconfident, for the split that models are trained on."""
    if split == TRAINED_ON:
        print_note(
            f"models are trained on the split {TRAINED_ON}: probabilities fitted on it are overconfident, unless this"
            " model was trained on another"
        )


def print_calibration(report: dict[str, Any]) -> None:
    """Print recall with and without the correction of hubs, then the assessment."""
    print_sizes(f"{report['model']} {report['digest']}", report)
    rows = [
        [f"{half}{stage}", *(f"{value:.1f}" for value in sums.values())]
        for stage, rsums in (("", report["rsum"]), (", stage one", report["rsum_of_stage_one"]))
        for half, sums in rsums.items()
    ]
    print_table("rsum", "uncorrected", "as served", rows=rows)
    uncorrected, served = report["rsum"]["held_out"].values()
    if served < uncorrected:
        print_note(
            f"the correction of hubs lowers rsum by {uncorrected - served:.1f} for held-out pictures: run it again with"
            " --fit-share, which fits its strength, or with --share 0, which turns it off"
        )
    if report["cosine_weight"]:
        alone = ", ".join(f"{half} {value:.1f}" for half, value in report["rsum_without_stage_one"].items())
        print(
            f"stage one's cosine is added to the score with weight {report['cosine_weight']:.3g}; without it rsum is"
            f" {alone}"
        )
    if report["short_question"]:
        print(f"questions of up to {report['short_question']} tokens are scored by regions alone")
    print_assessment(report)


def print_sizes(model: str, report: dict[str, Any]) -> None:
    """Print the numbers of pictures, after the name of the model."""
    num_fitted, num_held_out = report["pictures"]["fitted"], report["pictures"]["held_out"]
    print(f"{model}: fitted on {num_fitted} pictures, judged by {num_held_out} others")


def print_assessment(report: dict[str, Any]) -> None:
    """Print predicted and observed probabilities, and how well the test whether anything matches works."""
    for direction, what in DIRECTIONS.items():
        for size, result in report["held_out"][direction].items():
            first = result["first"]
            print(
                f"\n{what}, {size} pictures: calibration error {result['error']:.3f}, Brier skill"
                f" {result['brier_skill']:.2f} of {result['answers']} answers;"
                f" {first['error']:.3f}, {first['brier_skill']:.2f} of the first results alone"
            )
            print_reliability(result["reliability"])
    for direction, what in DIRECTIONS.items():
        for size, result in (report["matched"][direction] or {}).items():
            print(
                f"\n{what}, {size} pictures: the test whether anything matches has an area of {result['auc']:.2f} under"
                f" the ROC curve, {result['present']['not_matched']:.0%} false negatives,"
                f" {result['absent']['matched']:.0%} false positives"
            )
    if (short := report["short_match"]) is not None:
        print(
            f"\npictures that show what {short['questions']} short questions ask for: calibration error"
            f" {short['error']:.3f}, Brier skill {short['brier_skill']:.2f} of {short['answers']} answers;"
            f" {short['matched']['absent']['matched']:.0%} false positives"
        )
        print_reliability(short["reliability"])


def print_reliability(rows: list[dict[str, Any]]) -> None:
    """Print a table of predicted and observed shares of right answers."""
    cells = [
        [f"{row['from']:.1f}", f"{row['predicted']:.3f}", f"{row['observed']:.3f}", str(row["count"])] for row in rows
    ]
    print_table("from", "predicted", "observed", "answers", rows=cells)
