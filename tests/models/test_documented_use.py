"""The examples of `docs/models.md`, run as they stand there."""

from typing import Any

import pytest
import torch

from tests.support.documents import FENCE
from tests.support.project_files import ROOT


def test_the_models_are_used_from_python_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = [
        block
        for kind, block in FENCE.findall((ROOT / "docs/models.md").read_text(encoding="utf-8"))
        if kind == "python"
    ]
    monkeypatch.chdir(ROOT)
    made: dict[str, Any] = {}
    exec("\n".join(examples), made)
    assert made["own"].shape == (1, 2)
    assert all(weight.grad is not None for weight in made["matcher"].reranker.parameters())
    dog, cyclist = made["scores"][0]
    assert dog > cyclist
    assert made["recalls"]["text_to_image"]["r1"] == 100
    assert made["stage_one"].shape == (1, 2)
    torch.testing.assert_close(made["why"].shares.sum((-1, -2)), made["scores"], rtol=0, atol=1e-4)
