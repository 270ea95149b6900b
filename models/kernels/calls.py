"""Calls of the built kernels: records and sentences as ctypes structures."""

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from jaxtyping import Bool, Float
from torch import Tensor

from models.batches import Words
from models.kernels.forms import BLOCK, AnyForm, CaanForm, CaanQuestion, KernelForm, Question, SmanForm, SmanQuestion

NO_FAULT, NO_MEMORY, NO_SUCH_ROW = range(3)  # as in source/records.h
Records = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class KernelCall:
    """The arguments that all pictures share, and one structure per sentence."""

    pictures: ctypes.Structure
    sentences: Sequence[ctypes.Structure]
    options: ctypes.Structure
    kept: Sequence[Tensor]
    """The tensors whose addresses the structures hold."""


def _fields(pointers: Sequence[str], steps: Sequence[str], numbers: Sequence[str]) -> Sequence[tuple[str, Any]]:
    """The fields of a structure: addresses, then bytes from one picture to the next, then smaller whole numbers."""
    kinds = (ctypes.c_void_p, ctypes.c_int64, ctypes.c_int32)
    return [(name, kind) for kind, names in zip(kinds, (pointers, steps, numbers), strict=True) for name in names]


class _Pictures(ctypes.Structure):
    """`pictures` of source/kernels.c."""

    _fields_ = _fields(
        ("vectors", "gram", "mask"), ("vectors_step", "gram_step", "mask_step", "number"), ("regions", "width")
    )


class _Sentence(ctypes.Structure):
    """`sentence` of source/kernels.c."""

    _fields_ = _fields(("vectors",), (), ("words",))


class _Form(ctypes.Structure):
    """`form` of source/directions.h."""

    _fields_ = (
        *_fields((), (), ("words_attend", "regions_attend", "logits", "bounded", "focal", "pooling")),
        ("times", ctypes.c_float),
        ("sharpness", ctypes.c_float),
    )


class _CaanPictures(ctypes.Structure):
    """`caan_pictures` of source/caan.h."""

    _fields_ = _fields(
        ("vectors", "intra", "inter", "mask"),
        ("vectors_step", "intra_step", "inter_step", "mask_step", "number"),
        ("regions", "width", "units"),
    )


class _CaanSentence(ctypes.Structure):
    """`caan_sentence` of source/caan.h."""

    _fields_ = _fields(("vectors", "keys", "intra", "inter"), (), ("words",))


class _CaanForm(ctypes.Structure):
    """`caan_form` of source/caan.h."""

    _fields_ = (*_fields(("region_weight", "word_weight"), (), ("intra_modal",)), ("slope", ctypes.c_float))


class _SmanPictures(ctypes.Structure):
    """`sman_pictures` of source/sman.h."""

    _fields_ = _fields(
        ("keys", "values", "whole", "own", "mask"),
        ("keys_step", "values_step", "whole_step", "own_step", "mask_step", "number"),
        ("regions", "width"),
    )


class _SmanSentence(ctypes.Structure):
    """`sman_sentence` of source/sman.h."""

    _fields_ = _fields(("keys", "values", "whole", "own", "region_queries", "word_queries"), (), ("words",))


class _SmanForm(ctypes.Structure):
    """`sman_form` of source/sman.h."""

    _fields_ = _fields(("region_weight", "word_weight"), (), ("outside", "concatenation"))


def call_of(form: AnyForm, records: Records, question: Question) -> KernelCall:
    """The call that scores stored pictures. Raises ValueError for records of other types or shapes."""
    return _CALLS[type(form)](form, records, question)


def form_structure(form: KernelForm) -> ctypes.Structure:
    """The options as `form` of source/directions.h."""
    return _Form(*form.numbers())


def packed_units(rows: Float[Tensor, "W Z"]) -> Float[Tensor, "blocks W 16"]:
    """The columns in blocks of 16, each block with all rows."""
    return rows.view(len(rows), rows.shape[1] // BLOCK, BLOCK).transpose(0, 1).contiguous()


def _pictures(kind: type[ctypes.Structure], records: Records, shapes: Mapping[str, tuple[int, ...] | None]) -> Any:
    """The addresses of stored fields, which must have the kernels' layout; null for a field without a shape.

    The caller adds the sizes of a picture, which are those in `shapes`.
    """
    num = len(records["mask"])
    pointers: list[int | None] = []
    steps: list[int] = []
    for name, shape in shapes.items():
        if shape is None:
            pointers, steps = [*pointers, None], [*steps, 0]
            continue
        array, wanted, number = records[name], (num, *shape), np.dtype("?" if name == "mask" else "<f2")
        if (array.shape, array.dtype) != (wanted, number):
            raise ValueError(f"{name} must be {wanted} of {number}, not {array.shape} of {array.dtype}")
        if num and not array[0].flags.c_contiguous:
            raise ValueError(f"{name} of a picture must lie in one piece")
        pointers.append(array.__array_interface__["data"][0])  # array.ctypes would create objects
        steps.append(array.strides[0])
    return kind(*pointers, *steps, num)


def _real(mask: Bool[Tensor, "Q W"]) -> Sequence[slice | Tensor]:
    """An index of the real words of each sentence: a slice, which copies nothing, if they come first."""
    array = mask.numpy()
    counts = array.sum(1).tolist()
    rows = zip(counts, array, mask, strict=True)
    return [slice(count) if row[:count].all() else real for count, row, real in rows]


def _check_lanes(width: int) -> None:
    if width % BLOCK:
        raise ValueError(f"rows of {width} numbers are not known to the kernel: it must be a multiple of {BLOCK}")


def _attention_call(form: KernelForm, records: Records, words: Words) -> KernelCall:
    regions, width = records["mask"].shape[1], words.vectors.shape[2]
    gram = (regions, regions) if "gram" in form.record_fields else None
    pictures = _pictures(_Pictures, records, {"vectors": (regions, width), "gram": gram, "mask": (regions,)})
    pictures.regions, pictures.width = regions, width
    kept = [vectors[real].contiguous() for vectors, real in zip(words.vectors.float(), _real(words.mask), strict=True)]
    sentences = [_Sentence(vectors.data_ptr(), len(vectors)) for vectors in kept]
    return KernelCall(pictures, sentences, form_structure(form), kept)


def _caan_call(form: CaanForm, records: Records, question: CaanQuestion) -> KernelCall:
    regions, (width, units) = records["mask"].shape[1], (question.vectors.shape[2], question.intra.shape[2])
    _check_lanes(units)
    of_regions = (regions, units)
    shapes = {"vectors": (regions, width), "intra": of_regions, "inter": of_regions, "mask": (regions,)}
    pictures = _pictures(_CaanPictures, records, shapes)
    pictures.regions, pictures.width, pictures.units = regions, width, units
    weights = [question.region_weight.float().contiguous(), question.word_weight.float().contiguous()]
    kept, sentences = list(weights), []
    for number, real in enumerate(_real(question.mask)):
        words, keys = (side[number][real].float().contiguous() for side in (question.vectors, question.keys))
        intra, inter = (packed_units(side[number][real].float()) for side in (question.intra, question.inter))
        kept += [words, keys, intra, inter]
        sentences.append(
            _CaanSentence(words.data_ptr(), keys.data_ptr(), intra.data_ptr(), inter.data_ptr(), len(words))
        )
    options = _CaanForm(*(weight.data_ptr() for weight in weights), form.intra_modal, form.slope)
    return KernelCall(pictures, sentences, options, kept)


def _sman_call(form: SmanForm, records: Records, question: SmanQuestion) -> KernelCall:
    regions, width = records["mask"].shape[1], question.whole.shape[1]
    _check_lanes(width)
    each = {"keys": (regions, width), "values": (regions, width), "whole": (width,), "own": (width,)}
    pictures = _pictures(_SmanPictures, records, {**each, "mask": (regions,)})
    pictures.regions, pictures.width = regions, width
    weights = [question.region_weight.float().contiguous(), question.word_weight.float().contiguous()]
    kept, sentences = list(weights), []
    for number, real in enumerate(_real(question.mask)):
        sides = [question.keys[number][real], question.values[number][real]]
        sides += [side[number] for side in (question.whole, question.own)]
        sides += [side[number] for side in (question.region_queries, question.word_queries)]
        sides = [side.float().contiguous() for side in sides]
        kept += sides
        sentences.append(_SmanSentence(*(side.data_ptr() for side in sides), len(sides[0])))
    options = _SmanForm(*(weight.data_ptr() for weight in weights), form.outside, form.concatenation)
    return KernelCall(pictures, sentences, options, kept)


_CALLS: Mapping[type[AnyForm], Callable[..., KernelCall]] = {
    KernelForm: _attention_call,
    CaanForm: _caan_call,
    SmanForm: _sman_call,
}

FUNCTIONS: Mapping[type[AnyForm], str] = {
    KernelForm: "regard_attention_scores",
    CaanForm: "regard_caan_scores",
    SmanForm: "regard_sman_scores",
}
