"""Records of stored pictures in a GPU's memory within a budget; those beyond it are copied through pinned memory.

A view's file only grows, so copies stay valid while the same mapping is read. Rows are copied up to the last one that
was ever requested, since later ones may not be published yet. All is copied again if the view is mapped again, as after
it grew, or if another view or other fields are read, such as those of another member of an ensemble. While a table
grows, the old and the new one exist, which may take twice the budget.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

AT_ONCE = 4096  # rows that are copied to the device at a time


def mapping_of(array: npt.NDArray[Any]) -> Any:
    """The mapped file that holds an array's numbers, or the array that owns them."""
    owner: Any = array
    while isinstance(owner, np.ndarray) and owner.base is not None:
        owner = owner.base
    return owner


def place_of(array: npt.NDArray[Any]) -> tuple[Any, ...]:
    """The location and layout of an array in memory without its length, equal for the same field."""
    return array.__array_interface__["data"][0], array.strides, array.shape[1:], array.dtype.str


def on_device(array: npt.NDArray[Any], device: torch.device) -> Tensor:
    """A copy of rows on the device, through pinned memory for a GPU."""
    copy = torch.from_numpy(np.ascontiguousarray(array))
    return copy.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else copy.to(device)


class DeviceRecords:
    """Fields of records on a device; for one thread at a time."""

    def __init__(self, device: torch.device, budget: int) -> None:
        """Keep at most `budget` bytes on the device."""
        self._device, self._budget = device, budget
        self._places: dict[str, tuple[Any, ...]] = {}
        self._sources: list[Any] = []  # kept, so that their addresses are not reused
        self._tables: dict[str, Tensor] = {}
        self.resident = 0  # rows that are on the device

    def tables(
        self, records: Mapping[str, npt.NDArray[Any]], rows: npt.NDArray[np.int64]
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Tensors [N, ...] on the device by field, and int64 indices into them of the shape of `rows`.

        Raises ValueError for fields of different lengths.
        """
        if len({len(array) for array in records.values()}) != 1:
            raise ValueError(f"fields of different lengths: { {name: len(array) for name, array in records.items()} }")
        self._extend(records, int(rows.max()) + 1 if rows.size else 0)
        if rows.size and int(rows.max()) < self.resident:
            return self._tables, on_device(rows, self._device)
        needed, places = np.unique(rows, return_inverse=True)
        return self._gathered(records, needed), on_device(places.reshape(rows.shape).astype(np.int64), self._device)

    def _gathered(self, records: Mapping[str, npt.NDArray[Any]], needed: npt.NDArray[np.int64]) -> dict[str, Tensor]:
        """The ascending rows `needed`: those on the device, then copies of the others."""
        split = int(np.searchsorted(needed, self.resident))
        gathered = {}
        for name, array in records.items():
            parts = [on_device(array[needed[split:]], self._device)]
            if split:
                parts.insert(0, self._tables[name].index_select(0, on_device(needed[:split], self._device)))
            gathered[name] = torch.cat(parts)
        return gathered

    def _extend(self, records: Mapping[str, npt.NDArray[Any]], wanted: int) -> None:
        """Copy the first `wanted` rows to the device, within the budget."""
        places = {name: place_of(array) for name, array in records.items()}
        if places != self._places:
            self._tables, self.resident, self._places = {}, 0, places
            self._sources = [mapping_of(array) for array in records.values()]
        each = sum(array[:1].nbytes for array in records.values())
        fitting = min(wanted, self._budget // each) if each else 0
        if fitting <= self.resident:
            return
        if not self._tables or len(next(iter(self._tables.values()))) < fitting:
            capacity = min(self._budget // each, max(fitting, 2 * self.resident))  # so that growth rarely copies
            self._tables = {name: self._grown(name, array, capacity) for name, array in records.items()}
        for start in range(self.resident, fitting, AT_ONCE):
            part = slice(start, min(start + AT_ONCE, fitting))
            for name, array in records.items():
                self._tables[name][part] = on_device(array[part], self._device)
        self.resident = fitting

    def _grown(self, name: str, array: npt.NDArray[Any], capacity: int) -> Tensor:
        """A table with room for `capacity` rows that begins with the resident ones."""
        kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
        table = torch.empty((capacity, *array.shape[1:]), dtype=kind, device=self._device)
        if self.resident:
            table[: self.resident] = self._tables[name][: self.resident]
        return table
