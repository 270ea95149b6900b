"""Properties that all two-stage detectors share, tried on one that is easily followed."""

import PIL.Image
import torch
from torch import Tensor

from models.extractors.two_stage import FirstStage, SecondStage, TwoStageConfig, TwoStageDetector, TwoStageNetwork
from tests.support.no_pictures import check_no_pictures


class Quarters(TwoStageNetwork):
    """Resizes pictures to 40x40 pixels; proposes the left and the right half, and moves what is of class 1."""

    feature_dim = 5

    def propose(self, picture: PIL.Image.Image) -> FirstStage:
        halves = torch.tensor([[0.0, 0, 20, 40], [20, 0, 40, 40]])
        return FirstStage(float(picture.width), (40, 40), halves)

    def box_features(self, first: FirstStage, boxes: Tensor) -> Tensor:
        return torch.cat([boxes, torch.full((len(boxes), 1), first.maps)], 1)

    def classify(self, first: FirstStage, features: Tensor) -> SecondStage:
        probabilities = torch.tensor([[0.2, 0.7], [0.6, 0.1]])
        moved = features[:, :4] + torch.tensor([0.0, 10, 0, 0])
        return SecondStage(probabilities, torch.stack([features[:, :4], moved], 1))


def test_regions_are_the_boxes_of_their_likeliest_class_described_where_they_are() -> None:
    detector = TwoStageDetector(Quarters(), ("cat", "dog"), TwoStageConfig(num_regions=4), "digest")
    assert detector.labels == ("cat", "dog", "picture")
    found = detector.extract([PIL.Image.new("RGB", (80, 20)), PIL.Image.new("RGB", (40, 40))])
    assert found.mask.tolist() == [[True, True, True, False]] * 2
    assert found.labels[:, :3].tolist() == [[2, 1, 0]] * 2
    looked_at: list[list[float]] = [[0.0, 0, 40, 40], [0, 10, 20, 40], [20, 0, 40, 40], [0, 0, 0, 0]]
    assert found.features[1, :3].tolist() == [[*box, 40] for box in looked_at[:3]]
    assert found.features[0, 1].tolist() == [0, 10, 20, 40, 80]
    assert not found.features[:, 3].any()
    assert found.boxes[1].tolist() == looked_at
    check_no_pictures(detector.extract)
    assert found.boxes[0].tolist() == (torch.tensor(looked_at) * torch.tensor([2, 0.5, 2, 0.5])).tolist()
