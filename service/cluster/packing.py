"""An encoded sentence on its way to many shards: as bytes, made once, since Ray would pickle its tensors for each.

PyTorch takes half a millisecond to pickle a small tensor; safetensors writes all three in a tenth of that.
"""

from dataclasses import dataclass
from typing import Self

from safetensors.torch import load, save

from models.matching.matcher import EncodedTexts


@dataclass(frozen=True)
class PackedTexts:
    """Encoded sentences as the bytes of a safetensors file."""

    content: bytes

    @classmethod
    def of(cls, texts: EncodedTexts) -> Self:
        """Packs sentences, wherever their tensors are."""
        return cls(save({name: tensor.contiguous().cpu() for name, tensor in texts.tensors().items()}))

    def unpacked(self) -> EncodedTexts:
        """The sentences, their tensors on the processor."""
        return EncodedTexts(**load(self.content))
