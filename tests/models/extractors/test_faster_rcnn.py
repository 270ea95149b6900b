"""Pictures in, regions out: what holds for any weights, so the weights here are random."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import PIL.Image
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torchvision.ops import box_iou

import models
from models.datasets.captions import read_captions
from models.extractors.base import PICTURE, REGION, Detections
from models.extractors.config import BadExtractor
from models.extractors.faster_rcnn.config import CONCEPT_FIELDS, DetectorConfig
from models.extractors.faster_rcnn.extractor import FasterRcnn, load_detector, save_detector
from models.extractors.imagenet_classes import IMAGENET_CLASSES
from models.extractors.registry import load_extractor
from models.safe_load.restricted_pickle import RefusedFile
from tests.support.no_pictures import check_no_pictures
from tests.support.power_cut import Disk

LABELS = ("cat", "dog", "bird")
SHIPPED = Path(models.__file__).parent / "weights" / "detector"


def noise(width: int, height: int, seed: int = 0) -> PIL.Image.Image:
    """A picture with structure at a coarse scale."""
    generator = torch.Generator().manual_seed(seed)
    coarse = torch.randint(0, 256, (7, 7, 3), dtype=torch.uint8, generator=generator)
    return PIL.Image.fromarray(coarse.numpy()).resize((width, height))


SMALL = DetectorConfig(labels=LABELS, side=192.0, neck_width=16, head_width=16, num_regions=12, batch=3)
WITH_CONCEPTS = replace(SMALL, concept_dim=6, any_overlap=0.45, feature="map-mean", one_stage_side=96)

WITH_NETWORK = replace(
    WITH_CONCEPTS, sentence_map=True, picture_backbone="mobilenet-v2", picture_side=64, picture_mirrored=True
)


@pytest.fixture(
    scope="module", params=[SMALL, WITH_CONCEPTS, WITH_NETWORK], ids=["plain", "concepts", "picture network"]
)
def detector(request: pytest.FixtureRequest) -> FasterRcnn:
    return random_detector(request.param)


def random_detector(config: DetectorConfig) -> FasterRcnn:
    """A detector with random weights, whose one-stage part, if it has one, is surer of some cells than of others."""
    torch.manual_seed(0)
    detector = FasterRcnn(config).eval()
    if config.concept_dim:
        for head in detector.one_stage.heads:
            head.get_parameter("objectness.weight").data.mul_(30)
            head.get_parameter("classes.weight").data.mul_(30)
        detector.concepts.class_vectors.normal_()
    return detector


def detections_of(detector: FasterRcnn, *pictures: PIL.Image.Image) -> Detections:
    return detector.extract(pictures)


@pytest.mark.parametrize(
    "picture",
    [
        noise(1, 1),
        noise(3000, 10),
        noise(10, 3000),
        noise(37, 53),
        noise(640, 480),
        PIL.Image.new("RGB", (300, 300), "white"),
    ],
    ids=lambda picture: f"{picture.width}x{picture.height}",
)
def test_any_picture_gets_its_regions_within_it(detector: FasterRcnn, picture: PIL.Image.Image) -> None:
    regions = detections_of(detector, picture)
    assert regions.features.shape == (1, 12, detector.feature_dim)
    own = detector.config.concept_dim if detector.config.sentence_map else 1280
    assert detector.feature_dim == own + detector.config.concept_dim
    assert regions.mask.all()
    boxes, edges = regions.boxes[0], torch.tensor([picture.width, picture.height] * 2)
    assert (boxes >= 0).all()
    assert (boxes <= edges + 1e-3).all()
    assert (boxes[:, 2:] > boxes[:, :2]).all()
    assert boxes[0].tolist() == pytest.approx([0, 0, picture.width, picture.height], rel=1e-5)
    assert detector.labels[int(regions.labels[0, 0])] == PICTURE
    confidence = regions.confidence[0]
    assert confidence[0] == 1
    assert (confidence.diff() <= 0).all()
    assert regions.features.isfinite().all()


def test_no_two_regions_but_the_picture_are_one_place(detector: FasterRcnn) -> None:
    boxes = detections_of(detector, noise(640, 480)).boxes[0, 1:]
    assert box_iou(boxes, boxes).fill_diagonal_(0).max() <= detector.config.any_overlap + 1e-3


def test_a_picture_gets_the_same_whatever_its_batch(detector: FasterRcnn) -> None:
    pictures = [noise(*size, seed) for seed, size in enumerate([(64, 48), (500, 500), (64, 48), (90, 30), (65, 48)])]
    together = detections_of(detector, *pictures)
    for place, picture in enumerate(pictures):
        assert_same(together[[place]], detections_of(detector, picture))


def test_threads_find_what_one_thread_finds(detector: FasterRcnn) -> None:
    pictures = [noise(90, 60, seed) for seed in range(5)]
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    try:
        together, first = detector.extract(pictures), detector.extract(pictures[:1])
    finally:
        torch.set_num_threads(before)
    assert not together.features.requires_grad
    assert not first.features.requires_grad
    assert_same(first, detections_of(detector, pictures[0]))
    for place, picture in enumerate(pictures):
        assert_same(together[[place]], detections_of(detector, picture))


@pytest.mark.parametrize("threads", [1, 2])
def test_no_pictures_have_no_regions(detector: FasterRcnn, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        check_no_pictures(detector.extract)
        check_no_pictures(detector._extract_in_batches)  # as on a GPU
    finally:
        torch.set_num_threads(before)


def assert_same(left: Detections, right: Detections) -> None:
    """The regions of one picture are the same; those of nearly the same confidence may come in another order."""
    one, other = ((found.boxes[0] @ torch.tensor([1.0, 3.0, 5.0, 7.0])).argsort() for found in (left, right))
    assert torch.equal(left.labels[0, one], right.labels[0, other])
    assert torch.equal(left.mask, right.mask)
    torch.testing.assert_close(left.boxes[0, one], right.boxes[0, other], rtol=1e-3, atol=1e-2)
    torch.testing.assert_close(left.confidence[0, one], right.confidence[0, other], rtol=1e-3, atol=1e-4)
    torch.testing.assert_close(left.features[0, one], right.features[0, other], rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("config", [SMALL, WITH_NETWORK], ids=["plain", "sentence map"])
def test_where_fewer_regions_exist_the_rest_is_masked_zeros(config: DetectorConfig) -> None:
    few = replace(config, num_proposals=5, one_stage_score=1.0)
    regions = detections_of(random_detector(few), noise(100, 100), noise(100, 100, 1))
    for one in range(2):
        real = int(regions.mask[one].sum())
        assert 1 < real <= 6
        assert regions.mask[one, :real].all()
        for rest in (regions.features, regions.boxes, regions.labels, regions.confidence):
            assert not rest[one, real:].any()


@pytest.mark.parametrize("config", [SMALL, WITH_CONCEPTS], ids=["plain", "concepts"])
def test_the_whole_picture_can_be_left_out(config: DetectorConfig, tmp_path: Path) -> None:
    detector = random_detector(config)
    save_detector(detector, tmp_path)
    without = load_detector(tmp_path, whole_picture=False)
    regions = detections_of(without, noise(200, 100))
    assert (regions.labels != detector.labels.index(PICTURE)).all()
    assert regions.mask.sum() == 12


def test_a_saved_detector_comes_back_and_its_digest_names_it(detector: FasterRcnn, tmp_path: Path) -> None:
    save_detector(detector, tmp_path)
    again = load_detector(tmp_path)
    before, after = (detections_of(each, noise(120, 160)) for each in (detector, again))
    # Half precision weights move boxes a little, so only the whole picture is surely the same region.
    torch.testing.assert_close(after.features[:, 0], before.features[:, 0], rtol=0.05, atol=0.05)
    assert again.digest == load_detector(tmp_path).digest
    assert again.digest != load_detector(tmp_path, num_regions=10).digest
    assert again.config == detector.config


def test_a_saved_detector_outlives_a_power_cut(
    detector: FasterRcnn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = Disk(tmp_path / "disk", monkeypatch)
    save_detector(detector, disk.folder)
    assert load_detector(disk.left(tmp_path / "left")).digest == load_detector(disk.folder).digest


def test_concepts_end_the_feature_and_name_the_region() -> None:
    detector = random_detector(WITH_CONCEPTS)
    assert detector.labels == (*LABELS, *IMAGENET_CLASSES, REGION, PICTURE)
    regions = detections_of(detector, noise(640, 480), noise(480, 640, 1))
    concepts = regions.features[..., 1280:]
    torch.testing.assert_close(concepts.norm(dim=-1), torch.ones(2, 12), rtol=1e-4, atol=1e-4)
    assert {detector.labels[label] for label in regions.labels[:, 1:].flatten().tolist()} & set(LABELS)
    named = regions.labels < len(LABELS) + 1000
    assert (regions.confidence[named] >= detector.config.min_label).all()
    assert (regions.confidence[~named][regions.labels[~named] != detector.labels.index(PICTURE)] < 0.3).all()


def test_without_concepts_nothing_tells_of_them(tmp_path: Path) -> None:
    save_detector(random_detector(SMALL), tmp_path)
    fields = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert not fields.keys() & set(CONCEPT_FIELDS)
    identity = json.dumps({**fields}, sort_keys=True).encode() + (tmp_path / "model.safetensors").read_bytes()
    assert load_detector(tmp_path).digest == hashlib.sha256(identity).hexdigest()[:32]
    save_detector(random_detector(WITH_CONCEPTS), tmp_path / "with")
    assert load_detector(tmp_path / "with").digest != load_detector(tmp_path / "with", coco_weight=2.0).digest


def test_another_layout_is_refused(detector: FasterRcnn, tmp_path: Path) -> None:
    save_detector(detector, tmp_path)
    with pytest.raises(RefusedFile, match=r"not those of the detector of .*weight is \(16, .*, not \(8, "):
        load_detector(tmp_path, neck_width=8)
    with pytest.raises(BadExtractor, match="colour"):
        load_detector(tmp_path, colour="red")


@pytest.mark.slow
@pytest.mark.realdata
def test_the_shipped_detector_finds_the_dogs_that_captions_name(data_dir: Path) -> None:
    shipped = load_detector(SHIPPED)
    # COCO's dog, or one of ImageNet's breeds.
    first, last = (IMAGENET_CLASSES.index(name) for name in ("Chihuahua", "Mexican hairless"))
    dogs = {"dog", *IMAGENET_CLASSES[first : last + 1]}
    lines = read_captions(data_dir / "flickr8k" / "captions.jsonl", "dev")
    names = [line.image for line in lines if all(" dog " in text.lower() for text in line.captions)][:8]
    pictures = [PIL.Image.open(data_dir / "flickr8k" / name).convert("RGB") for name in names]
    regions = shipped.extract(pictures)
    is_dog = torch.tensor([label in dogs for label in shipped.labels])
    sure = is_dog[regions.labels] & (regions.confidence > 0.3)
    assert sure.any(1).sum() >= 6
    assert regions.mask.all()

    # As it is loaded to extract, with fused layers, it finds the same but where two things were nearly equal.
    fused = load_extractor(SHIPPED).extract(pictures)
    same_box = (fused.boxes - regions.boxes).abs().amax(2) < 0.1
    same = (
        same_box & (fused.labels == regions.labels) & (cosine_similarity(fused.features, regions.features, 2) > 0.999)
    )
    assert same.float().mean() > 0.97


@pytest.mark.gpu
def test_a_gpu_describes_the_picture_as_the_cpu_does(detector: FasterRcnn, tmp_path: Path) -> None:
    save_detector(detector, tmp_path)
    cpu, gpu = (detections_of(load_detector(tmp_path, device), noise(120, 160)) for device in ("cpu", "cuda"))
    # Random classes are nearly equally likely: which ten are the likeliest, a rounding decides.
    picture = slice(0, 1280)
    torch.testing.assert_close(gpu.features[:, 0, picture].cpu(), cpu.features[:, 0, picture], rtol=1e-2, atol=1e-2)


def test_training_lowers_the_losses_on_one_thing() -> None:
    torch.manual_seed(0)
    detector = FasterRcnn(DetectorConfig(labels=LABELS, neck_width=16, head_width=32)).train()
    detector.backbone.requires_grad_(False)
    pixels, target = one_thing()
    optimizer = torch.optim.Adam([p for p in detector.parameters() if p.requires_grad], 3e-3)
    totals = []
    for _ in range(20):
        loss = torch.stack(list(detector.losses(pixels, [target]).values())).sum()
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        totals.append(float(loss.detach()))
    assert totals[-1] < 0.7 * totals[0]


def one_thing() -> tuple[Tensor, dict[str, Tensor]]:
    pixels = torch.zeros(1, 3, 128, 128, dtype=torch.uint8)
    pixels[:, 0, 32:96, 20:100] = 255
    return pixels, {"boxes": torch.tensor([[20.0, 32, 100, 96]]), "labels": torch.tensor([2])}
