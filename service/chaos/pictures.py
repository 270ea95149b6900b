"""Small pictures drawn from a seed, no two alike, so that the load needs no photographs."""

import hashlib
import io
import random
from dataclasses import dataclass

from PIL import Image, ImageDraw

from service.storage.originals import image_id_of

COLOURS = {"red": "#d22", "green": "#2a3", "blue": "#24d", "yellow": "#ed2", "white": "#fff", "black": "#000"}
DRAWN_KINDS = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp", "GIF": "gif", "BMP": "bmp", "TIFF": "tif"}


@dataclass(frozen=True)
class DrawnPicture:
    """A file to upload, its id, and a sentence that describes it."""

    image_id: str
    name: str
    content: bytes
    sentence: str

    def caption(self, edition: int) -> str:
        """The caption of the picture after `edition` changes."""
        return self.sentence if edition == 0 else f"{self.sentence}, edition {edition}"


def draw(seed: int, number: int) -> DrawnPicture:
    """The picture with this number: a ball and a box on a ground."""
    rng = random.Random(f"{seed} {number}")
    ground, ball, box = rng.sample(sorted(COLOURS), 3)
    picture = Image.new("RGB", (rng.randrange(96, 200), rng.randrange(96, 200)), COLOURS[ground])
    painter = ImageDraw.Draw(picture)
    for colour, shape in ((ball, painter.ellipse), (box, painter.rectangle)):
        left, top = rng.randrange(70), rng.randrange(70)
        shape((left, top, left + rng.randrange(20, 90), top + rng.randrange(20, 90)), fill=COLOURS[colour])
    for place in range(32):  # the number in binary, so that no two pictures are alike
        picture.putpixel((place, 0), (255, 255, 255) if number >> place & 1 else (0, 0, 0))
    kind = rng.choice(sorted(DRAWN_KINDS))
    buffer = io.BytesIO()
    picture.save(buffer, kind)
    content = buffer.getvalue()
    image_id = image_id_of(hashlib.sha256(content).hexdigest())
    sentence = f"a {ball} ball and a {box} box on a {ground} ground"
    return DrawnPicture(image_id, f"drawn-{number}.{DRAWN_KINDS[kind]}", content, sentence)
