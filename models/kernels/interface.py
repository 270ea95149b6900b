"""The interfaces of kernels: those that score stored pictures, on a CPU or a GPU, and those that attend to tables of
inner products."""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float
from torch import Tensor

from models.kernels.forms import AnyForm, KernelForm, Question
from models.kernels.tables import ProductTables


@runtime_checkable
class RecordKernels(Protocol):
    """Kernels that read a view's records by their rows; sentences and scores are on `device_type`."""

    @property
    def target(self) -> str:
        """The processor or language that they were built for."""

    @property
    def device_type(self) -> str:
        """cpu or cuda."""

    def knows(self, form: AnyForm | None) -> bool:
        """Whether they can compute the score; False for None."""

    def takes(self, num_regions: int, num_words: int) -> bool:
        """Whether they support pictures of `num_regions` and sentences of `num_words`."""

    def scores(
        self,
        form: AnyForm,
        records: Mapping[str, npt.NDArray[Any]],
        rows: npt.NDArray[np.int64],
        question: Question,
        threads: int = 1,
    ) -> Float[Tensor, "Q K"]:
        """Scores of the sentences with the pictures `rows` of `records`, the stored fields [N, ...] by name."""


@runtime_checkable
class TableKernels(Protocol):
    """Kernels that attend to tables of inner products."""

    def scores_of_tables(self, form: KernelForm, tables: ProductTables, threads: int = 1) -> Float[Tensor, "Q K"]:
        """Scores of all sentences with all pictures of the tables."""


def table_kernels(kernels: object) -> TableKernels | None:
    """The kernels, if they attend to tables."""
    return kernels if isinstance(kernels, TableKernels) else None


def field_reader(
    records: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[np.int64], device: torch.device
) -> Callable[[str], Tensor]:
    """A reader of the [K, ...] float32 field of a name for the pictures `rows`."""
    return lambda name: torch.from_numpy(records[name][rows]).to(device, torch.float32)
