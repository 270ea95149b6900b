"""The Python examples of the documentation, run as they stand there."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from models.datasets.captions import CaptionLine, read_captions
from tests.support.documents import FENCE
from tests.support.project_files import ROOT


def python_blocks(page: str) -> list[str]:
    """The code in a page's blocks of Python."""
    return [block for kind, block in FENCE.findall((ROOT / page).read_text(encoding="utf-8")) if kind == "python"]


def test_karpathys_splits_become_a_captions_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    images = [
        {
            "filename": "a.jpg",
            "split": "test",
            "sentences": [{"raw": "A dog.\n"}, {"raw": " "}, {"raw": "A black dog"}],
        },
        {"filepath": "val2014", "filename": "b.jpg", "split": "restval", "sentences": [{"raw": "A café"}]},
        {"filename": "c.jpg", "split": "val", "sentences": [{"raw": "A cat"}]},
    ]
    Path("dataset_flickr30k.json").write_text(json.dumps({"images": images}))
    (example,) = python_blocks("docs/training.md")
    exec(example, {})
    assert read_captions(Path("captions.jsonl")) == [
        CaptionLine("a.jpg", ("A dog.", "A black dog"), "test"),
        CaptionLine("val2014/b.jpg", ("A café",), "train"),
        CaptionLine("c.jpg", ("A cat",), "dev"),
    ]


def test_the_models_are_used_from_python_as_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    examples = python_blocks("docs/models.md")
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
