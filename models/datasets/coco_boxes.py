"""Objects of pictures, read from COCO's instances format (images, annotations with a box, categories)."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True)
class PictureObjects:
    """The objects of one picture by class: `boxes` [n 4] are x1 y1 x2 y2 in its pixels.

    `shown` are all classes in the picture, also those of which only crowds are marked: a crowd's box frames no single
    object and is not among `boxes`.
    """

    image: str
    boxes: Mapping[str, Float[np.ndarray, "n 4"]]
    shown: frozenset[str]


@dataclass(frozen=True)
class BoxedPictures:
    """Pictures with their objects, and the names of all classes."""

    pictures: Sequence[PictureObjects]
    classes: Sequence[str]

    def showing(self, name: str) -> list[int]:
        """The places of the pictures that show a class."""
        return [place for place, picture in enumerate(self.pictures) if name in picture.shown]

    def first(self, num: int | None) -> "BoxedPictures":
        """The first `num` pictures, all for None."""
        return BoxedPictures(self.pictures[:num], self.classes)


def read_coco_boxes(path: Path) -> BoxedPictures:
    """The pictures of a file in its order, with their objects. ValueError where it is in another format or empty."""
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
            {name: np.array(own) for name, own in boxes[image["id"]].items()},
            frozenset(shown[image["id"]]),
        )
        for image in stored["images"]
    ]
    if not pictures:
        raise ValueError("there is no picture")
    return BoxedPictures(pictures, list(classes.values()))
