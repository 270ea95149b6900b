"""Pictures with object boxes, to measure where explanations point and what short questions find."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from models.datasets.captions import CaptionLine, captioned_photographs, read_captions
from service.cli.terminal.output import Progress, print_note, print_table
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
    """A file of boxes in COCO's format, the folder of its pictures or their features, and any captions."""

    boxes: Path
    images: Path | None
    features: Path | None
    captions: Path | None

    def objects(self, first: int | None = None) -> "BoxedPictures":
        """The first existing pictures with their objects; a note counts the missing ones. UserError where all are
        missing, or the file is in another format."""
        from models.datasets.coco_boxes import read_coco_boxes

        with user_input(self.boxes):
            boxed = read_coco_boxes(self.boxes)
        existing = self._existing([picture.image for picture in boxed.pictures])
        missing = [picture.image for picture in boxed.pictures if picture.image not in existing]
        if missing:
            folder, all_pictures = self.features or self.images, f"the {len(boxed.pictures)} pictures of {self.boxes}"
            if not existing:
                raise UserError(
                    f"{folder} holds none of {all_pictures}, such as {missing[0]}: name the folder that these names"
                    " are relative to"
                )
            print_note(f"{folder} lacks {len(missing)} of {all_pictures}, such as {missing[0]}: they are left out")
        return boxed.of_pictures(existing).first(first)

    def _existing(self, names: Sequence[str]) -> set[str]:
        """The names of which pictures or features exist."""
        if self.features is None:
            assert self.images is not None
            return {name for name in names if (self.images / name).is_file()}
        from models.datasets.feature_store import open_features

        with user_input(self.features):
            return set(open_features(self.features).ids).intersection(names)

    def lines(self, objects: "BoxedPictures") -> list[CaptionLine]:
        """The pictures in the order of `objects`, with their captions."""
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

    def load(
        self, name: str, objects: "BoxedPictures", features: Path
    ) -> tuple["CaptionedFeatures", "np.ndarray", "BoxedPictures"]:
        """The pictures' features in `features` with their captions, the boxes [N R 4] of their regions, and the
        objects, which for "grounding" are scaled to the pixels of these boxes. UserError where regions have no boxes,
        or objects are of other pictures.
        """
        import numpy as np

        from models.datasets.captioned_features import CaptionedFeatures
        from models.datasets.coco_boxes import BoxedPictures
        from models.datasets.feature_store import open_features

        with user_input(features):
            stored = open_features(features)
            data = CaptionedFeatures.join(stored, self.lines(objects))
        boxes = stored.boxes[data.rows].astype(np.float64)
        if not np.isfinite(boxes[data.mask[data.rows]]).all():
            raise UserError(f"{features} has regions without boxes: extract them with `regard extract`")
        if name != "grounding":  # short questions ask what is shown, not where
            return data, boxes, objects
        sizes = [stored.picture_size(int(row)) for row in data.rows]
        with user_input(self.boxes):
            scaled = [
                boxed.scaled_to(size) if size else boxed for boxed, size in zip(objects.pictures, sizes, strict=True)
            ]
        return data, boxes, BoxedPictures(scaled, objects.classes)


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
    from models.evaluation.grounding import measure_grounding
    from models.evaluation.short_questions import measure_short_questions

    if name == "grounding":
        return measure_grounding(matcher, data, boxes, objects.pictures, progress=progress.report, **options)
    return measure_short_questions(matcher, data, objects, progress=progress.report, **options)


def print_grounding(report: dict[str, Any]) -> None:
    """Print where explanations point, in percent with intervals, and how much the best region covers."""
    rows = []
    for kind, results in report["pointing"].items():
        for way in (name for name in results if name != "questions"):
            ends = results[way]["interval"]
            rows.append(
                [f"{kind} ({results['questions']})", way]
                + [f"{results[way][by]:.1f} ({ends[by][0]:.1f} to {ends[by][1]:.1f})" for by in ("overlap", "centre")]
            )
    shown = report["shown_by"] or "no regions of words, which this model does not give"
    print(f"{report['pictures']} pictures, {report['classes']} classes; people are shown: {shown}")
    print_table("question (how many)", "region by", f"IoU {report['iou']:g}", "centre inside", rows=rows)
    covered = [f"{share['percent']:.1f} % of {name}" for name, share in report["coverage"].items()]
    print(f"any region covers (IoU {report['iou']:g}) {' and '.join(covered)}")


def print_short_questions(report: dict[str, Any]) -> None:
    """Print how well pictures are found by the names of what they show, by template and way of searching."""
    rows = [
        [
            template,
            search.replace("_", " "),
            *(f"{result[name]:.2f}" for name in ANSWER_MEASURES),
            str(len(result["without_hit"])),
        ]
        for template, searches in report["templates"].items()
        for search, result in searches.items()
    ]
    asked, least, pictures = len(report["classes"]), report["least_pictures"], report["pictures"]
    print(f"{asked} classes, each shown by {least} or more of {pictures} pictures")
    print_table(
        "question", "search", *ANSWER_MEASURES.values(), f"classes without a hit in {report['first']}", rows=rows
    )
    if report["short_match"] is not None:
        print("\nprobabilities that a picture shows the object, and the test whether any does (matched)")
        columns = ("calibration error", "Brier skill", "area under ROC", "matched where one does", "where none does")
        rows = [[template, *short_match_cells(result)] for template, result in report["short_match"].items()]
        print_table("question", *columns, rows=rows)


def short_match_cells(result: dict[str, Any]) -> list[str]:
    """The report of `assess_short_match` as cells of a table."""
    shares = [f"{result['matched'][name]['matched']:.0%}" for name in ("present", "absent")]
    return [f"{result['error']:.3f}", f"{result['brier_skill']:.2f}", f"{result['auc']:.2f}", *shares]
