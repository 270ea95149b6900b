"""The Triton kernel scores as PyTorch does; records on a device are those of the view, whatever fits there."""

import json
import os
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from models.batches import numbered_fields
from models.kernels.device_library import MOST_LANES, DeviceKernels, lanes_for
from models.kernels.device_records import DeviceRecords
from tests.support.project_files import ROOT
from tests.support.triton_check import options

CPU = torch.device("cpu")


def differences(device: str, **environment: str) -> dict[str, float]:
    """What a process of its own finds."""
    command = [sys.executable, "-m", "tests.support.triton_check", device]
    inherited = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=ROOT, env=inherited | environment, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    found: dict[str, float] = json.loads(ran.stdout)
    return found


@pytest.mark.slow
def test_the_interpreted_kernel_scores_as_pytorch() -> None:
    pytest.importorskip("triton")
    found = differences("cpu", TRITON_INTERPRET="1")
    assert len(found) == len(list(options())) + 2 == 22
    assert max(found.values()) < 1e-5, found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "compiled", "most"),
    [
        (["36", "14", "80", "90"], 10, 48),
        ([str(MOST_LANES), str(MOST_LANES), "86", "bfan-equal"], 1, 99),  # an RTX 30, as others than data centres have
    ],
)
def test_the_kernel_compiles_for_gpus(tmp_path: Path, asked: list[str], compiled: int, most: int) -> None:
    """For Ampere and Hopper, with less shared memory in KiB than a block of either may have."""
    pytest.importorskip("triton")
    inherited = {**os.environ, "PYTHONPATH": str(ROOT), "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "tests.support.triton_compile", *asked]
    ran = subprocess.run(command, cwd=ROOT, env=inherited, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-3000:]
    shared = json.loads(ran.stdout)
    assert len(shared) == compiled
    assert max(shared.values()) <= most * 1024


@pytest.mark.gpu
def test_the_kernel_on_a_gpu_scores_as_pytorch() -> None:
    found = differences("cuda")
    assert max(found.values()) < 1e-5, found


def records(count: int) -> dict[str, np.ndarray]:
    """Records in one array, as a view's file holds them: 12 bytes each, and a gap between the fields."""
    packed = np.zeros(count, np.dtype([("vectors", "<f2", (2, 2)), ("gap", "<i4"), ("mask", "?", (4,))]))
    packed["vectors"] = np.arange(4 * count).reshape(count, 2, 2)
    packed["mask"] = np.arange(count)[:, None] % 2 == 0
    return {"vectors": packed["vectors"], "mask": packed["mask"]}


@pytest.mark.parametrize("budget", [0, 11, 12, 50, 10_000])
@pytest.mark.parametrize("rows", [[], [3, 0, 3], [[5, 1], [9, 9]], [9, 8, 7, 2]])
def test_rows_are_those_of_the_view_whatever_fits(budget: int, rows: list[int]) -> None:
    view, asked = records(10), np.array(rows, np.int64)
    held = DeviceRecords(CPU, budget)
    for _ in range(2):
        tables, places = held.tables(view, asked)
        assert places.shape == asked.shape
        for name, array in view.items():
            np.testing.assert_array_equal(tables[name][places].numpy(), array[asked])
    assert held.resident == min(budget // 12, asked.max() + 1 if asked.size else 0)


def test_a_view_that_grows_keeps_what_is_there_and_one_that_is_mapped_anew_does_not() -> None:
    view, held = records(10), DeviceRecords(CPU, 10_000)
    held.tables(view, np.array([3]))
    before = held._tables["vectors"][:4].clone()
    tables, places = held.tables(view, np.array([8]))
    assert held.resident == 9
    assert torch.equal(held._tables["vectors"][:4], before)
    np.testing.assert_array_equal(tables["vectors"][places].numpy(), view["vectors"][[8]])
    other = records(10)
    other["vectors"][:] += 100
    tables, places = held.tables(other, np.array([2]))
    assert held.resident == 3
    np.testing.assert_array_equal(tables["vectors"][places].numpy(), other["vectors"][[2]])


def test_fields_of_two_members_in_one_file_are_told_apart() -> None:
    packed = np.zeros(4, np.dtype([(f"{name}_{n}", "<f2", (2,)) for n in (0, 1) for name in ("vectors", "mask")]))
    for number, name in enumerate(packed.dtype.names or ()):
        packed[name] = number
    both, held = {name: packed[name] for name in packed.dtype.names or ()}, DeviceRecords(CPU, 10_000)
    for number in (0, 1, 0):
        tables, places = held.tables(numbered_fields(both, number), np.array([0, 2]))
        found = {name: sorted(set(table[places].flatten().tolist())) for name, table in tables.items()}
        assert found == {"vectors": [2 * number], "mask": [2 * number + 1]}
    tables, _ = held.tables({"mask": both["mask_0"]}, np.array([0]))
    assert tables.keys() == {"mask"}


def test_copies_of_a_matcher_share_the_records_on_the_device() -> None:
    pytest.importorskip("triton")
    kernels = DeviceKernels(CPU, 100)
    assert deepcopy(kernels) is kernels


def test_fields_of_different_lengths_are_refused() -> None:
    view = records(4)
    with pytest.raises(ValueError, match="different lengths"):
        DeviceRecords(CPU, 100).tables({"vectors": view["vectors"], "mask": view["mask"][:3]}, np.array([0]))


@pytest.mark.parametrize(("count", "lanes"), [(0, 16), (1, 16), (16, 16), (17, 32), (36, 64), (64, 64), (65, 128)])
def test_lanes_are_a_power_of_two(count: int, lanes: int) -> None:
    assert lanes_for(count) == lanes
