"""Grounding: whether the region that a model gives for a class word is an object of that class (pointing).

For every picture and every class that is marked in it, sentences that name the class are explained. Judged are the
regions with the class word's largest share in the score (if the model has exact shares), its largest attention, and its
largest plain cosine: whether the region overlaps an object of the class (IoU at least OVERLAP), and whether its centre
lies inside one. For a class of several words, their weights are summed.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import tiles
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.coco_boxes import PictureObjects
from models.evaluation.class_names import class_places, from_template, plural
from models.evaluation.confidence import interval_of_ratio, interval_settings
from models.evaluation.evaluate import Progress, check_feature_width, encode_pictures
from models.matching.encoded import EncodedImages, EncodedTexts
from models.matching.matcher import Matcher
from models.rerankers.attention import l2_normalise
from models.rerankers.base import Explanation

OVERLAP = 0.3  # intersection over union from which a region counts as covering an object
GROUNDING_TEMPLATES = ("a X", "X")
CAPTIONS = "captions"  # in addition to the templates: captions that name the class
PICTURES_AT_ONCE = 64

Weights = Mapping[str, Float[np.ndarray, "W R"]]
"""Way of pointing -> the weight of each word and region."""


def box_overlaps(regions: Float[np.ndarray, "R 4"], objects: Float[np.ndarray, "n 4"]) -> Float[np.ndarray, "R n"]:
    """Intersection over union of every region with every object; boxes are x1 y1 x2 y2."""
    low = np.maximum(regions[:, None, :2], objects[None, :, :2])
    high = np.minimum(regions[:, None, 2:], objects[None, :, 2:])
    shared = np.clip(high - low, 0, None).prod(2)
    areas = [(boxes[:, 2:] - boxes[:, :2]).prod(1) for boxes in (regions, objects)]
    union = areas[0][:, None] + areas[1][None] - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0))


def centres_inside(regions: Float[np.ndarray, "R 4"], objects: Float[np.ndarray, "n 4"]) -> Bool[np.ndarray, "R n"]:
    """Whether the centre of every region lies inside every object."""
    centres = (regions[:, None, :2] + regions[:, None, 2:]) / 2
    return np.asarray(((centres >= objects[None, :, :2]) & (centres <= objects[None, :, 2:])).all(2))


@dataclass
class Tally:
    """Numbers of hits and questions per picture, for a share with an interval over pictures."""

    hits: dict[int, float] = field(default_factory=lambda: defaultdict(float))
    questions: dict[int, float] = field(default_factory=lambda: defaultdict(float))

    def add(self, picture: int, hit: float, questions: int = 1) -> None:
        """Count questions about a picture, of which `hit` were answered correctly."""
        self.hits[picture] += hit
        self.questions[picture] += questions

    def percent(self) -> float:
        """The share of hits in percent."""
        return 100 * sum(self.hits.values()) / sum(self.questions.values())

    def interval(self) -> list[float]:
        """The bootstrap interval of the share."""
        order = sorted(self.questions)
        return interval_of_ratio(
            np.array([self.hits[picture] for picture in order]),
            np.array([self.questions[picture] for picture in order]),
        )


@dataclass(frozen=True)
class RegionsOfClass:
    """Masks of a picture's R regions for a class, one per criterion: True for right answers."""

    overlap: Bool[np.ndarray, " R"]
    centre: Bool[np.ndarray, " R"]

    @classmethod
    def of(cls, regions: Float[np.ndarray, "R 4"], objects: Float[np.ndarray, "n 4"]) -> "RegionsOfClass":
        """Regions judged by the objects of a class."""
        overlaps, inside = box_overlaps(regions, objects) >= OVERLAP, centres_inside(regions, objects)
        return cls(np.asarray(overlaps.any(1)), np.asarray(inside.any(1)))

    def by_criterion(self) -> dict[str, Bool[np.ndarray, " R"]]:
        """Criterion -> right regions."""
        return {"overlap": self.overlap, "centre": self.centre}


Tallies = dict[str, dict[str, Tally]]
"""Way of pointing -> criterion -> tally."""


def measure_grounding(
    matcher: Matcher,
    data: CaptionedFeatures,
    region_boxes: Float[np.ndarray, "N R 4"],
    objects: Sequence[PictureObjects],
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The report, for JSON: pointing by template and in captions, a random region's expectation, and the coverage of
    objects by regions; in percent.

    `region_boxes` are those of the pictures of `data`, in pixels like the objects. Raises ValueError if no object of
    any class is marked.
    """
    check_feature_width(matcher, data)
    matcher.eval()
    classes = sorted({name for picture in objects for name in picture.boxes})
    if not classes:
        raise ValueError("no object is marked in any picture")
    questions = ClassQuestions(matcher, classes)
    tallies: dict[str, Tallies] = defaultdict(lambda: defaultdict(lambda: defaultdict(Tally)))
    coverage: dict[str, Tally] = defaultdict(Tally)
    masks = data.mask[data.rows]
    for picture, images in pictures_one_by_one(matcher, data):
        boxes, real = region_boxes[picture], np.flatnonzero(masks[picture])
        marked = objects[picture].boxes
        right = {name: RegionsOfClass.of(boxes[real], found) for name, found in marked.items()}
        for name, found in marked.items():
            coverage["pairs"].add(picture, float(right[name].overlap.any()))
            covered = (box_overlaps(boxes[real], found) >= OVERLAP).any(0)
            coverage["objects"].add(picture, float(covered.sum()), len(found))
        if not len(real):
            continue  # nothing points anywhere
        for kind, name, weights, places in questions.about(images, list(marked), data.captions[picture]):
            count_pointing(tallies[kind], picture, weights, places, real, right[name])
        if progress is not None:
            progress("explaining", picture + 1, len(data))
    pointed_by = {way for ways in tallies.values() for way in ways}
    shown_by = next((way for way in ("shares", "attention") if way in pointed_by), None)
    return {
        "iou": OVERLAP,
        "intervals": interval_settings(),
        "pictures": len(data),
        "classes": len(classes),
        "shown_by": shown_by,
        "coverage": {
            what: {"percent": tally.percent(), "interval": tally.interval()} for what, tally in coverage.items()
        },
        "pointing": {kind: _pointing_report(ways) for kind, ways in tallies.items()},
    }


def count_pointing(
    tallies: Tallies,
    picture: int,
    weights: Weights,
    places: Sequence[int],
    real: np.ndarray,
    right: RegionsOfClass,
) -> None:
    """Count one question: the region that each way points at, and the expectation of a random one."""
    for criterion, regions in right.by_criterion().items():
        tallies["random"][criterion].add(picture, float(regions.mean()))
        for way, by_word in weights.items():
            pointed = int(by_word[list(places)][:, real].sum(0).argmax())
            tallies[way][criterion].add(picture, float(regions[pointed]))


def _pointing_report(tallies: Tallies) -> dict[str, Any]:
    report: dict[str, Any] = {"questions": int(sum(tallies["random"]["overlap"].questions.values()))}
    for way, by_criterion in tallies.items():
        report[way] = {criterion: tally.percent() for criterion, tally in by_criterion.items()}
        report[way]["interval"] = {criterion: tally.interval() for criterion, tally in by_criterion.items()}
    return report


@torch.no_grad()
def pictures_one_by_one(matcher: Matcher, data: CaptionedFeatures) -> Iterator[tuple[int, EncodedImages]]:
    """Every picture's index, and the encoded picture as a batch of one."""
    for tile in tiles(len(data), PICTURES_AT_ONCE):
        images, _ = encode_pictures(matcher, data, tile, PICTURES_AT_ONCE)
        for number in range(len(images)):
            yield tile.start + number, images[number : number + 1]


class ClassQuestions:
    """Sentences that name classes, put to one picture after the other."""

    def __init__(self, matcher: Matcher, classes: Sequence[str]) -> None:
        """Encode the sentences of the templates about every class."""
        self._matcher = matcher
        self._forms = {name: [tuple(matcher.words(form)[1:-1]) for form in (name, plural(name))] for name in classes}
        self._sentences = {
            (template, name): from_template(template, name) for template in GROUNDING_TEMPLATES for name in classes
        }
        self._row = {key: row for row, key in enumerate(self._sentences)}
        self._texts, _ = matcher.encode_sentences(list(self._sentences.values()))

    def about(
        self, images: EncodedImages, names: Sequence[str], captions: Sequence[str]
    ) -> Iterator[tuple[str, str, Weights, list[int]]]:
        """For every question about one picture: its template or CAPTIONS, the class, the weights of words and regions,
        and the indices of the words that name the class."""
        asked = [(template, name) for template in GROUNDING_TEMPLATES for name in names]
        if asked:
            explained = self._explain(images, self._texts[[self._row[key] for key in asked]])
            for number, (template, name) in enumerate(asked):
                places = class_places(self._matcher.words(self._sentences[template, name]), self._forms[name])
                if places:  # a name with punctuation may be split differently inside a sentence
                    yield template, name, {way: values[number] for way, values in explained.items()}, places
        named = [
            (caption, name, places)
            for caption in captions
            for name in names
            if (places := class_places(self._matcher.words(caption), self._forms[name]))
        ]
        if named:
            texts, _ = self._matcher.encode_sentences([caption for caption, _, _ in named])
            explained = self._explain(images, texts)
            for number, (_, name, places) in enumerate(named):
                yield CAPTIONS, name, {way: values[number] for way, values in explained.items()}, places

    def _explain(self, images: EncodedImages, texts: EncodedTexts) -> dict[str, Float[np.ndarray, "Q W R"]]:
        explanation = self._matcher.explain(images, texts)
        ways = {**explanation_matrices(explanation), "similarity": cosines_of_words(images, texts)}
        return {way: values[:, 0].double().cpu().numpy() for way, values in ways.items() if values is not None}


def explanation_matrices(explanation: Explanation) -> dict[str, Tensor | None]:
    """The word-by-region matrices [Q K W R] of an explanation; None for one that the model does not have."""
    return {"shares": explanation.shares, "attention": explanation.attention}


def cosines_of_words(images: EncodedImages, texts: EncodedTexts) -> Float[Tensor, "Q K W R"] | None:
    """Cosine of every word with every region; None if they are not in one space."""
    vectors = images.tensors().get("vectors")
    if vectors is None or vectors.dim() != 3 or vectors.shape[2] != texts.vectors.shape[2]:
        return None
    return torch.einsum("qwd,krd->qkwr", l2_normalise(texts.vectors), l2_normalise(vectors))
