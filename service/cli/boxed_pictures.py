"""Pictures with the boxes of their objects, for measuring where explanations point and what short questions find."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.datasets.captions import CaptionLine, captioned_photographs, read_captions
from service.cli.output import Progress, print_table
from service.errors import UserError, user_input

if TYPE_CHECKING:
    import numpy as np

    from models.datasets.captioned_features import CaptionedFeatures
    from models.datasets.coco_boxes import BoxedPictures
    from models.matching.matcher import Matcher

ANSWER_MEASURES = {
    "hits_of_possible": "of the possible hits",
    "first_right": "first right",
    "mean_average_precision": "mAP",
}


@dataclass(frozen=True)
class BoxedSource:
    """A file of boxes in COCO's format, and a folder of its pictures or of their features; captions where there are."""

    boxes: Path
    images: Path | None
    features: Path | None
    captions: Path | None

    def objects(self, first: int | None = None) -> "BoxedPictures":
        """The first pictures with their objects. UserError where the file is in another format."""
        from models.datasets.coco_boxes import read_coco_boxes  # noqa: PLC0415 - NumPy comes with it

        with user_input(self.boxes):
            return read_coco_boxes(self.boxes).first(first)

    def lines(self, objects: "BoxedPictures") -> list[CaptionLine]:
        """The pictures in the order of their objects, with the captions they have."""
        captions: dict[str, tuple[str, ...]] = {}
        if self.captions is not None:
            with user_input(self.captions):
                captions = {line.image: line.captions for line in read_captions(self.captions)}
        return [CaptionLine(picture.image, captions.get(picture.image, ())) for picture in objects.pictures]

    def photographs(self, lines: Sequence[CaptionLine]) -> dict[str, Path]:
        """Name -> file of the pictures. UserError names a missing one."""
        assert self.images is not None
        with user_input():
            return captioned_photographs(self.images, lines)

    def load(self, lines: Sequence[CaptionLine], features: Path) -> tuple["CaptionedFeatures", "np.ndarray"]:
        """The pictures' features in `features` with their captions, and the boxes [N R 4] of their regions. UserError
        where a picture was not extracted or the regions have no boxes."""
        import numpy as np  # noqa: PLC0415 - only when there is something to measure

        from models.datasets.captioned_features import CaptionedFeatures  # noqa: PLC0415 - PyTorch comes with it
        from models.datasets.feature_store import open_features  # noqa: PLC0415

        with user_input(features):
            stored = open_features(features)
            data = CaptionedFeatures.join(stored, lines)
        boxes = stored.boxes[data.rows].astype(np.float64)
        if not np.isfinite(boxes[data.mask[data.rows]]).all():
            raise UserError(f"{features} has regions without boxes")
        return data, boxes


def measure_boxed(
    name: str,
    matcher: "Matcher",
    data: "CaptionedFeatures",
    boxes: "np.ndarray",
    objects: "BoxedPictures",
    progress: Progress,
    **options: Any,
) -> dict[str, Any]:
    """The report of one measurement, "grounding" or "short_questions". ValueError where there is nothing to measure."""
    from models.evaluation.grounding import measure_grounding  # noqa: PLC0415 - PyTorch comes with it
    from models.evaluation.short_questions import measure_short_questions  # noqa: PLC0415

    if name == "grounding":
        return measure_grounding(matcher, data, boxes, objects.pictures, progress=progress.report, **options)
    return measure_short_questions(matcher, data, objects, progress=progress.report, **options)


def print_grounding(report: dict[str, Any]) -> None:
    """Print where explanations point, in percent with intervals, and how much any region covers."""
    rows = []
    for kind, own in report["pointing"].items():
        for way in (name for name in own if name != "questions"):
            ends = own[way]["interval"]
            rows.append(
                [f"{kind} ({own['questions']})", way]
                + [f"{own[way][by]:.1f} ({ends[by][0]:.1f} to {ends[by][1]:.1f})" for by in ("overlap", "centre")]
            )
    print(f"{report['pictures']} pictures, {report['classes']} classes; people are shown: {report['shown_by']}")
    print_table("question (how many)", "region by", f"IoU {report['iou']:g}", "centre inside", rows=rows)
    covered = [f"{found['percent']:.1f} % of {what}" for what, found in report["coverage"].items()]
    print(f"any region covers (IoU {report['iou']:g}) {' and '.join(covered)}")


def print_short_questions(report: dict[str, Any]) -> None:
    """Print how well pictures are found by the names of what they show, by template and way of searching."""
    rows = [
        [
            template,
            search.replace("_", " "),
            *(f"{found[name]:.2f}" for name in ANSWER_MEASURES),
            str(len(found["without_hit"])),
        ]
        for template, searches in report["templates"].items()
        for search, found in searches.items()
    ]
    asked, least, pictures = len(report["classes"]), report["least_pictures"], report["pictures"]
    print(f"{asked} classes, each shown by {least} or more of {pictures} pictures")
    print_table(
        "question", "search", *ANSWER_MEASURES.values(), f"classes without a hit in {report['first']}", rows=rows
    )
