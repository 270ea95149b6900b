"""Objects of pictures, read from COCO's instances format (images, annotations with a box, categories)."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

SAME_SHAPE = 0.03  # by which aspect ratios may differ: sides are rounded when a picture is resized
OUTSIDE = 1.1  # of a picture's sides: not even a carelessly drawn box ends beyond it


@dataclass(frozen=True)
class PictureObjects:
    """The objects of one picture by class: `boxes` [n 4] are x1 y1 x2 y2 in its pixels.

    `shown` are all classes in the picture, including those of which only crowds are marked: a crowd's box frames no
    single object and is not among `boxes`.
    """

    image: str
    boxes: Mapping[str, Float[np.ndarray, "n 4"]]
    shown: frozenset[str]
    size: tuple[float, float] | None = None
    """Width and height of the picture that the boxes were drawn in, if known."""

    def scaled_to(self, size: tuple[float, float]) -> "PictureObjects":
        """Objects in pixels of a picture of that size. Raises ValueError if they do not fit it."""
        width, height = size
        if self.size is None:
            ends = [boxes[:, 2:].max(0) for boxes in self.boxes.values()]
            if any((end > np.array(size) * OUTSIDE).any() for end in ends):
                raise ValueError(
                    f"{self.image} is {width:g} x {height:g} pixels, and a box ends outside: give the width and height"
                    " that the boxes go by with each of `images`"
                )
            return self
        zoom = np.array([width / self.size[0], height / self.size[1]] * 2)
        if abs(zoom[0] / zoom[1] - 1) > SAME_SHAPE:
            raise ValueError(
                f"{self.image} is {self.size[0]:g} x {self.size[1]:g} there, and {width:g} x {height:g} as found: the"
                " boxes are those of another picture, or of one that lies on its side"
            )
        return replace(self, boxes={name: boxes * zoom for name, boxes in self.boxes.items()}, size=size)


@dataclass(frozen=True)
class BoxedPictures:
    """Pictures with their objects, and the names of all classes."""

    pictures: Sequence[PictureObjects]
    classes: Sequence[str]

    def showing(self, name: str) -> list[int]:
        """The indices of the pictures that show a class."""
        return [place for place, picture in enumerate(self.pictures) if name in picture.shown]

    def of_pictures(self, names: Collection[str]) -> "BoxedPictures":
        """Only the pictures of these names."""
        return BoxedPictures([picture for picture in self.pictures if picture.image in names], self.classes)

    def first(self, num: int | None) -> "BoxedPictures":
        """The first `num` pictures, all for None."""
        return BoxedPictures(self.pictures[:num], self.classes)


def read_coco_boxes(path: Path) -> BoxedPictures:
    """The pictures of a file in its order, with their objects. Raises ValueError if empty or of another format."""
    try:
        return _boxed_pictures(json.loads(path.read_text(encoding="utf-8")))
    except (KeyError, TypeError, ValueError) as fault:
        raise ValueError(
            f"{path}: expected COCO's format, with images (id, file_name), annotations (image_id, category_id, bbox)"
            f" and categories (id, name): {fault if type(fault) is ValueError else repr(fault)}"
        ) from fault


def _boxed_pictures(stored: Mapping[str, Any]) -> BoxedPictures:
    classes = {category["id"]: str(category["name"]).lower() for category in stored["categories"]}
    boxes: dict[Any, dict[str, list[list[float]]]] = {image["id"]: {} for image in stored["images"]}
    shown: dict[Any, set[str]] = {number: set() for number in boxes}
    for place, annotation in enumerate(stored["annotations"]):
        number, category = annotation["image_id"], annotation["category_id"]
        if number not in boxes or category not in classes:
            what = f"image_id {number}" if number not in boxes else f"category_id {category}"
            raise ValueError(f"annotation {place} has the {what}, which is none of the file's")
        name = classes[category]
        left, top, width, height = (float(edge) for edge in annotation["bbox"])
        if not (width >= 0 and height >= 0):
            raise ValueError(f"annotation {place} has a box of {width:g} x {height:g}")
        shown[number].add(name)
        if not annotation.get("iscrowd", 0):
            boxes[number].setdefault(name, []).append([left, top, left + width, top + height])
    pictures = [
        PictureObjects(
            str(image["file_name"]),
            {name: np.array(rows) for name, rows in boxes[image["id"]].items()},
            frozenset(shown[image["id"]]),
            _size_of(image),
        )
        for image in stored["images"]
    ]
    if not pictures:
        raise ValueError("there is no picture")
    return BoxedPictures(pictures, list(classes.values()))


def _size_of(image: Mapping[str, Any]) -> tuple[float, float] | None:
    sides = [float(image.get(name) or 0) for name in ("width", "height")]
    return (sides[0], sides[1]) if min(sides) > 0 else None
