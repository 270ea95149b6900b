"""Scores of many pictures with many sentences, block by block."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any, TypeGuard

import torch
from jaxtyping import Float
from torch import Tensor

from models.batches import Words, tiles
from models.kernels.forms import AnyForm, KernelForm
from models.kernels.interface import TableKernels
from models.kernels.tables import ProductTables
from models.rerankers.attention import gram_matrix, similarities
from models.rerankers.base import Images, RegionsWithGram, Reranker

KERNEL_BLOCK = (100, 32)  # pictures x sentences whose products are computed together for the kernels


@torch.no_grad()
def score_in_blocks(
    reranker: Reranker[Images],
    images: Images,
    words: Words,
    image_block: int | None = None,
    text_block: int | None = None,
    kernels: TableKernels | None = None,
) -> Float[Tensor, "Q K"]:
    """`score` of many pairs with memory bounded by a block; sentences are sorted by length to limit padding.

    The default block keeps its similarities in the processor's cache (16 sentences of 14 words x 50 pictures of 36
    regions are 1.6 MB); models that build vectors for every pair have a smaller one. A `text_block` of more sentences,
    which should be short, reduces the pictures of a block. `kernels` compute scores of float32 vectors on the CPU, if
    they support the model's attention.
    """
    form, block = reranker.kernel_form, reranker.block
    score: Callable[[Any, Words], Tensor] = reranker.score
    if kernels is not None and suits_tables(form, images, words):
        score, block = partial(score_by_tables, kernels, form), KERNEL_BLOCK
    if text_block:
        block = max(1, math.prod(block) // text_block), text_block
    lengths = words.mask.sum(1)
    order = lengths.argsort(stable=True)
    # Scores are computed in half precision, but compared in float32.
    dtype = torch.promote_types(words.vectors.dtype, torch.float32)
    scores = torch.empty(len(words), len(images), dtype=dtype, device=words.mask.device)
    for sentences in tiles(len(words), block[1]):
        chosen = order[sentences]
        width = int(lengths[chosen].max())
        part = Words(words.vectors[chosen, :width], words.mask[chosen, :width])
        for tile in tiles(len(images), image_block or block[0]):
            scores[chosen, tile] = score(images[tile], part).to(dtype)
    return scores


def suits_tables(form: AnyForm | None, images: Any, words: Words) -> TypeGuard[KernelForm]:
    """Whether kernels support this form and these vectors."""
    return (
        isinstance(form, KernelForm)
        and form.logits != "none"
        and isinstance(images, RegionsWithGram)
        and images.vectors.dtype == words.vectors.dtype == torch.float32
        and images.vectors.device.type == words.vectors.device.type == "cpu"
    )


def score_by_tables(
    kernels: TableKernels, form: KernelForm, images: RegionsWithGram, words: Words
) -> Float[Tensor, "Q K"]:
    """The scores of one block: one matrix product of all regions and words by PyTorch, attention by the kernels."""
    products, vectors = similarities(images.vectors, words)
    tables = ProductTables(
        products=products,
        gram=images.gram,
        region_lengths=images.vectors.norm(dim=-1),
        region_mask=images.mask,
        word_gram=gram_matrix(vectors),
        word_lengths=vectors.norm(dim=-1),
        word_counts=words.mask.sum(1, dtype=torch.int32),
    )
    return kernels.scores_of_tables(form, tables, torch.get_num_threads())
