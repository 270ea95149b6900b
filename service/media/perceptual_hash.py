"""A hash of what a picture looks like: the same but for a few bits after scaling, compressing and small retouches.

64 signs of a discrete cosine transform (Zauner 2010, "pHash"): the picture in grey at 32 x 32 pixels, of its transform
the 8 x 8 lowest frequencies, one bit for each that is above their median. Colours do not count.
"""

import numpy as np
import PIL.Image

SIDE, KEPT = 32, 8
# A wave of one shade of grey has about this much; what is weaker is left by rounding and compression, and counts as 0.
NOISE = 512
NO_HASH = b""  # of a picture without structure, which is like no other

FREQUENCY, PLACE = np.arange(KEPT)[:, None], np.arange(SIDE)
COSINES = np.cos(np.pi * FREQUENCY * (2 * PLACE + 1) / (2 * SIDE))  # [KEPT SIDE]


def perceptual_hash(picture: PIL.Image.Image) -> bytes:
    """The 8 bytes of an RGB picture's hash; NO_HASH for one of a single colour, or nearly so."""
    grey = picture.convert("L").resize((SIDE, SIDE), PIL.Image.Resampling.LANCZOS)
    low = (COSINES @ np.asarray(grey, np.float64) @ COSINES.T).ravel()
    low[np.abs(low) < NOISE] = 0.0
    if not low[1:].any():
        return NO_HASH
    return np.packbits(low > np.median(low[1:])).tobytes()
