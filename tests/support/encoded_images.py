"""Pictures as a reranker encodes them, without the matcher around it."""

from models.batches import Regions
from models.rerankers.base import Images, Reranker


def encode_images(reranker: Reranker[Images], regions: Regions) -> Images:
    """Raw region features to encoded pictures."""
    return reranker.precompute(reranker.project(regions))
