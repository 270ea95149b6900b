"""A service imports neither PyTorch's compiler nor what only models with a vocabulary need."""

import json
import subprocess
import sys
from types import ModuleType

import pytest

from models.extractors import lean_torchvision
from tests.support.project_files import ROOT

PROGRAM = """
import json, sys
import models.lean_torch
import service.model_loading, service.api.app, service.api.services, service.worker.process
from torchvision.ops import nms
import torch
kept = nms(torch.tensor([[0.0, 0, 2, 2], [0, 0, 2, 2]]), torch.tensor([1.0, 2.0]), 0.5)
from service.settings import Settings
models = service.model_loading.LoadedModels.from_settings(Settings(device="cpu"), stored=False, at_first_use=True)
for matcher in models.in_views():
    matcher.encode_sentences(["a dog"])
    matcher.use_kernels(None)
    matcher.encode_sentences(["a dog"])
def imported():
    return sorted({name.partition(".")[0] for name in sys.modules} | set(sys.modules))
served = imported()
from models.text.vocabulary import tokenize
words = tokenize("A dog's ball isn't red.")
read = imported()
from importlib import import_module
chance = import_module("nltk.metrics.association").fisher_exact([[8, 2], [1, 5]])
print(json.dumps([served, kept.tolist(), read, words, chance[1], "scipy" in sys.modules]))
"""


@pytest.mark.slow
def test_a_service_that_loaded_its_models_leaves_out_what_it_never_calls() -> None:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True, check=True)
    served, kept, read, words, chance, has_scipy = json.loads(ran.stdout)
    assert {"torch", "torchvision", "faiss", "fastapi"} <= set(served)
    unused = {"torch._meta_registrations", "torch._decomp.decompositions", "torch._dynamo", "sympy"}
    assert not (unused | {"nltk", "scipy", "tensorboard", "ray", "redis"}) & set(served)
    assert kept == [1]  # torchvision's own operators are there
    assert words == ["a", "dog", "'s", "ball", "is", "n't", "red", "."]
    assert "nltk" in read
    assert "scipy" not in read
    assert has_scipy  # once a test of significance was wanted, which is scipy's own
    assert chance == pytest.approx(280 / 8008)  # the tables that are as rare or rarer, of all with these sums


@pytest.mark.parametrize("supported", [True, False])
def test_the_stand_in_asks_the_compiler_when_it_is_called(monkeypatch: pytest.MonkeyPatch, supported: bool) -> None:
    compiler = ModuleType(lean_torchvision.UTILITIES)
    compiler.is_compile_supported = lambda device: device == "cuda" and supported  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, lean_torchvision.COMPILER, ModuleType(lean_torchvision.COMPILER))
    monkeypatch.setitem(sys.modules, lean_torchvision.UTILITIES, compiler)
    assert lean_torchvision._is_compile_supported("cuda") is supported
