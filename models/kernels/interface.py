"""The interface of kernels that score stored pictures, on a CPU and on a GPU."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
from jaxtyping import Float
from torch import Tensor

from models.batches import Words
from models.kernels.forms import KernelForm


@runtime_checkable
class RecordKernels(Protocol):
    """Kernels that read a view's records by their rows; `device_type` is where sentences must lie, and scores do."""

    @property
    def target(self) -> str:
        """The processor, or language, that it was built for."""

    @property
    def device_type(self) -> str:
        """cpu or cuda."""

    def scores(
        self,
        form: KernelForm,
        records: Mapping[str, npt.NDArray[Any]],
        rows: npt.NDArray[np.int64],
        words: Words,
        threads: int = 1,
    ) -> Float[Tensor, "Q K"]:
        """Scores of the sentences with the pictures `rows` of `records`, the stored fields [N, ...] by name."""
