"""A perceptual hash: scaling, compression and small retouches change only a few bits.

64 signs of a discrete cosine transform (Zauner 2010, "pHash"): the picture is reduced to 32 x 32 grey pixels; each of
the 8 x 8 lowest frequencies of its transform gives one bit, set if it is above their median. Colours are ignored.
"""

import numpy as np
import PIL.Image

SIDE, KEPT = 32, 8
# The coefficient of a wave of one grey level; weaker ones come from rounding and compression, and count as 0.
NOISE = 512
NO_HASH = b""  # for a picture without structure, which resembles no other

FREQUENCY, PLACE = np.arange(KEPT)[:, None], np.arange(SIDE)
COSINES = np.cos(np.pi * FREQUENCY * (2 * PLACE + 1) / (2 * SIDE))  # [KEPT SIDE]


def perceptual_hash(picture: PIL.Image.Image) -> bytes:
    """The 8-byte hash of an RGB picture; NO_HASH for a picture of nearly a single colour."""
    grey = picture.convert("L").resize((SIDE, SIDE), PIL.Image.Resampling.LANCZOS)
    low = (COSINES @ np.asarray(grey, np.float64) @ COSINES.T).ravel()
    low[np.abs(low) < NOISE] = 0.0
    if not low[1:].any():
        return NO_HASH
    return np.packbits(low > np.median(low[1:])).tobytes()
