"""Compiles the Triton kernel for GPUs that need not be there: `python -m tests.support.triton_compile 36 14 80 90`, for
36 regions, 14 words and two compute capabilities; the name of a model after these compiles that one's form alone.

Prints one JSON object: form and compute capability -> bytes of shared memory.
"""

import json
import sys
from typing import get_args

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from models.kernels.device_library import CHUNK_NUMBERS, lanes_for
from models.kernels.forms import FormFocal, FormLogits, FormPooling, KernelForm
from models.kernels.triton_kernels import score_pairs_kernel
from tests.support.kernels import small_reranker

POINTERS = {
    **{"vectors": "*fp16", "gram": "*fp16", "mask": "*u8", "rows": "*i64", "words": "*fp32", "word_gram": "*fp32"},
    **{"word_mask": "*u8", "scores": "*fp32", "pictures": "i32", "regions": "i32", "width": "i32"},
    **{"times": "fp32", "sharpness": "fp32"},
}
COMPILED = ("scan-t2i-lse", "scan-i2t-avg", "bfan-equal", "bfan-prob", "summax-t2i")
WARP = 32


def constants(form: KernelForm, regions: int, words: int) -> dict[str, int | bool]:
    """What the kernel is compiled for."""
    return {
        "REGIONS": lanes_for(regions),
        "WORDS": lanes_for(words),
        "CHUNK": CHUNK_NUMBERS,
        "WORDS_ATTEND": form.words_attend,
        "REGIONS_ATTEND": form.regions_attend,
        "LOGITS": get_args(FormLogits).index(form.logits),
        "BOUNDED": form.bounded,
        "FOCAL": get_args(FormFocal).index(form.focal),
        "POOLING": get_args(FormPooling).index(form.pooling),
    }


def main() -> None:
    """Compile every model's form, or the one named, for every capability given."""
    shared = {}
    num_regions, num_words, *capabilities = (int(one) for one in sys.argv[1:] if one.isdecimal())
    for name in [one for one in sys.argv if one in COMPILED] or COMPILED:
        form = small_reranker(name, 16).kernel_form
        assert isinstance(form, KernelForm)
        given = constants(form, num_regions, num_words)
        signature = POINTERS | dict.fromkeys(given, "constexpr")
        for capability in capabilities:
            source = ASTSource(fn=score_pairs_kernel, signature=signature, constexprs=given)
            made = triton.compile(source, target=GPUTarget("cuda", capability, WARP))
            shared[f"{name} sm_{capability}"] = made.metadata.shared
    print(json.dumps(shared))


if __name__ == "__main__":
    main()
