"""Concept vectors against their formula in loops, and the labels of regions."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.extractors.coco_classes import COCO_CATEGORY_IDS, COCO_CLASSES
from models.extractors.faster_rcnn.concepts import ConceptHead
from models.extractors.imagenet_classes import IMAGENET_CLASSES

NUM_DETECTED, DIM = 7, 6


@pytest.fixture(scope="module")
def head() -> ConceptHead:
    torch.manual_seed(0)
    head = ConceptHead(NUM_DETECTED, DIM)
    head.class_vectors.copy_(normalize(torch.randn_like(head.class_vectors), dim=1))
    return head.requires_grad_(False)


def concept_in_loops(head: ConceptHead, feature: Tensor, detected: Tensor, weight: float) -> Tensor:
    logits = [
        float(row @ feature + bias) for row, bias in zip(head.classifier.weight, head.classifier.bias, strict=True)
    ]
    classified = torch.tensor(logits).softmax(0)
    vector = torch.zeros(DIM)
    for number in sorted(range(1000), key=lambda number: -float(classified[number]))[:10]:
        vector += classified[number] * head.class_vectors[NUM_DETECTED + number]
    vector /= vector.norm()
    for number in sorted(range(NUM_DETECTED), key=lambda number: -float(detected[number]))[:5]:
        vector += weight * detected[number] * head.class_vectors[number]
    vector /= vector.norm()
    return vector


def test_a_concept_is_its_formula(head: ConceptHead) -> None:
    generator = torch.Generator().manual_seed(1)
    features, detected = torch.randn(3, 1280, generator=generator), torch.rand(3, NUM_DETECTED, generator=generator)
    detected[2] = 0
    vectors = head(features, detected, 4.0, 0.3).vectors
    for row in range(3):
        torch.testing.assert_close(
            vectors[row], concept_in_loops(head, features[row], detected[row], 4.0), rtol=1e-4, atol=1e-4
        )


def test_detected_classes_name_a_region_then_imagenets_then_none(head: ConceptHead) -> None:
    unsure = torch.zeros(1280)
    sure = 50 * head.classifier.weight[8] / head.classifier.weight[8].square().sum()
    detected = torch.tensor([[0.0, 0.4, 0.1, 0, 0, 0, 0], [0.0, 0.2, 0.1, 0, 0, 0, 0], [0.2] + [0.0] * 6])
    named = head(torch.stack([sure, sure, unsure]), detected, 4.0, 0.3)
    assert named.labels.tolist() == [1, NUM_DETECTED + 8, NUM_DETECTED + 1000]
    assert named.confidence.tolist() == pytest.approx([0.4, 1.0, 0.2], abs=1e-2)


def test_the_lists_of_classes_are_the_data_sets() -> None:
    assert len(COCO_CLASSES) == len(COCO_CATEGORY_IDS) == 80
    assert dict(zip(COCO_CATEGORY_IDS, COCO_CLASSES, strict=True))[90] == "toothbrush"
    assert dict(zip(COCO_CATEGORY_IDS, COCO_CLASSES, strict=True))[18] == "dog"
    assert len(IMAGENET_CLASSES) == 1000
    assert (IMAGENET_CLASSES[0], IMAGENET_CLASSES[207], IMAGENET_CLASSES[999]) == (
        "tench",
        "golden retriever",
        "toilet tissue",
    )
