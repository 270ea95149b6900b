"""Options of `regard train`: what a recipe does not read is refused, and a name of features reaches the model."""

import json
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from models.datasets.photographs import open_upright
from models.matching.checkpoint import load_matcher
from models.training.recipes import RECIPES
from service.cli.training.run import read_photographs
from service.errors import UserError
from service.model_loading import LoadedModels
from service.settings import Settings
from tests.support.cli_runner import Regard
from tests.support.feature_layouts import arrays, built, scan_layout
from tests.support.library import two_coloured
from tests.support.project_files import ROOT
from tests.support.small_services import small_service

HEIC = ROOT / "tests" / "data" / "heic" / "orientation_1.heic"
MODEL = ["train", "scan-t2i-avg-flickr8k", "--out", "run"]
SIZES = ("warmup_steps=0", "width=8", "word_dim=6", "embed_dim=4", "least_count=1")
BACKBONE = ["train", "backbone", "--out", "run", "--backbone", "a", "--captions", "a"]


def as_changes(*changes: str) -> list[str]:
    """Options of a recipe with these changes and small sizes."""
    return [word for change in (*SIZES, *changes) for word in ("--set", change)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([*MODEL, "--teacher", "a"], "scan-t2i-avg-flickr8k does not read --teacher"),
        ([*MODEL, "--backbone", "a"], "does not read --backbone"),
        ([*MODEL, "--sentence-encoder", "."], "does not read --sentence-encoder"),
        ([*MODEL, "--precomp", ".", "--captions", "a"], "--precomp holds features and captions"),
        ([*MODEL, "--features", ".", "--captions", "a", "--extractor", "x"], "--extractor goes with --precomp"),
        ([*BACKBONE, "--extractor", "x"], "backbone does not read --extractor"),
        ([*BACKBONE, "--precomp", "."], "backbone does not read --precomp"),
        ([*BACKBONE, "--regions", "3"], "backbone does not read --regions"),
        ([*BACKBONE, "--teacher", "a"], "backbone does not read --teacher"),
        (["train", "head", *BACKBONE[2:], "--teacher", "a", "--from", "."], "head does not read --from"),
        (
            ["train", "detector", *BACKBONE[2:], "--teacher", "a", "--sentence-encoder", "."],
            "detector does not read --sentence-encoder",
        ),
    ],
)
def test_an_option_that_is_not_read_is_named(
    regard: Regard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a").write_text("{}\n")
    status, said, noted = regard(*arguments)
    assert (status, said) == (2, "")
    assert words in " ".join(noted.split())
    assert not Path("run").exists()


@pytest.mark.parametrize(
    ("kind", "shown", "hidden"),
    [
        ("backbone", "--out tuned", "--features"),
        ("head", "--out head", "--from"),
        ("detector", "--from", "--sentence-encoder"),
        ("camp-flickr8k", 'starts_from="bfan-equal-flickr8k"', "--teacher"),
    ],
)
def test_help_after_a_name_is_that_of_this_training(regard: Regard, kind: str, shown: str, hidden: str) -> None:
    said, whole = (" ".join(regard("train", name, "--help")[1].split()) for name in (kind, ""))
    assert (shown in said, hidden in said, hidden in whole) == (True, False, True)
    assert all(each.rpartition("-")[2] in whole for each in RECIPES)


def test_a_misspelt_recipe_is_told_before_its_options(regard: Regard) -> None:
    status, _, noted = regard("train", "backbones", "--out", "run", "--backbone", "a")
    assert (status, "no recipe is called backbones: did you mean backbone?" in noted) == (1, True)
    _, _, noted = regard("train", "something", "--out", "run", "--backbone", "a")
    assert "no recipe is called something; there are backbone, head, detector" in noted


def test_what_is_no_file_is_told_from_what_is_not_there(regard: Regard, tmp_path: Path) -> None:
    (tmp_path / "captions.jsonl").write_text("{}\n")
    given = ("train", "backbone", "--out", tmp_path / "run", "--captions", tmp_path / "captions.jsonl", "--backbone")
    assert regard(*given, "/dev/null")[2] == "regard: /dev/null is not a file\n"
    assert regard(*given, tmp_path / "gone")[2] == f"regard: there is no file {tmp_path / 'gone'}\n"


def test_a_misspelt_field_is_told(regard: Regard, tmp_path: Path) -> None:
    scan_layout(tmp_path / "own", arrays(), "train")
    given = ("train", "scan-t2i-avg-flickr8k", "--out", tmp_path / "run", "--precomp", tmp_path / "own")
    status, _, noted = regard(*given, "--set", "learning-rate=1")
    assert (status, "--set learning-rate=1: write name=value" in noted) == (1, True)
    assert noted.endswith("did you mean learning_rate?\n")
    assert "--set momentum: other fields of this recipe" in regard(*given, "--set", "momentum=0.5")[2]
    assert "; there are model, " in regard(*given, "--set", "zzz=1")[2]


def test_weights_of_a_recipe_that_there_is_not_are_refused_with_those_that_there_are(
    regard: Regard, tmp_path: Path
) -> None:
    scan_layout(tmp_path / "own", arrays(), "train")
    given = ("train", "scan-t2i-avg-flickr8k", "--out", tmp_path / "run", "--precomp", tmp_path / "own")
    for wrong, advice in (("caan-flickr", ": did you mean caan-flickr8k?"), ("zzz", "; there are scan-t2i-lse-f")):
        status, _, noted = regard(*given, "--set", f"starts_from={wrong}")
        assert (status, f"starts_from={wrong}: no recipe of a model has this name{advice}" in noted) == (1, True)
    assert "give them with --from" in regard(*given, "--set", "starts_from=caan-flickr8k")[2]


def test_features_of_a_name_of_ones_own_are_learnt_from_measured_and_served(regard: Regard, tmp_path: Path) -> None:
    own, data, best = tmp_path / "own", tmp_path / "data", tmp_path / "run" / "best"
    for split in ("train", "dev"):
        scan_layout(own, arrays(), split)
    changes = as_changes("epochs=1", "batch=5")
    named = ("--precomp", own, "--device", "cpu", "--extractor", "mine")
    train = ["train", "scan-t2i-avg-flickr8k", "--out", tmp_path / "run", *named, *changes]
    status, _, noted = regard(*train)
    assert (status, "leaves out" in noted) == (0, False), noted
    run = json.loads((tmp_path / "run" / "recipe.json").read_text())
    assert (run["recipe_name"], run["recipe"]["width"], run["given"]["dev"]) == ("scan-t2i-avg-flickr8k", 8, "dev")
    assert run["digests"]["features"] == "mine"
    noted = regard(*train[:3], tmp_path / "same", *train[4:], "--dev", "train")[2]
    assert "split train is learnt from and validated on" in noted
    noted = regard(*train[:3], tmp_path / "other", *train[4:], "--from", best)[2]
    assert "name the recipe of its weights: --set starts_from=scan-t2i-avg-flickr8k" in noted
    np.save(own / "dev_ims.npy", np.full_like(np.load(own / "dev_ims.npy"), np.nan))
    others = ["--set", "batch=4", "--set", "starts_from=scan-t2i-avg-flickr8k", "--from", best]
    at = [one for one in changes if one != "--set" and one not in ("batch=5", "least_count=1")]
    given = [*named, *(word for one in at for word in ("--set", one)), *others]
    tune = ["train", "scan-t2i-avg-flickr8k", "--out", tmp_path / "tuned", *given]
    refused = "the features of picture 0, picture 1, picture 2 and 2 others hold numbers that are not finite"
    status, _, noted = regard(*tune)
    assert (status, f"regard: split dev: {refused}" in noted, (tmp_path / "tuned").exists()) == (1, True, False)
    status, said, noted = regard("evaluate", "--model", best, "--split", "dev", *named, "--json")
    assert (status, said, f"regard: {refused}" in noted) == (1, "", True)
    scan_layout(own, arrays(), "dev")
    assert "an epoch leaves out" in regard(*tune)[2]
    assert (tmp_path / "tuned" / "best").is_dir()
    status, _, noted = regard("evaluate", "--model", best, "--split", "dev", *named)
    assert status == 0, noted
    compared = ["--against", tmp_path / "tuned" / "best", "--ranks", tmp_path / "ranks", "--json", "--regions", "4"]
    status, said, noted = regard("evaluate", "--model", best, "--split", "dev", *named, *compared)
    assert status == 0, noted
    report, ranks = json.loads(said), np.load(tmp_path / "ranks.npz")
    other, about = report["against"], report["about"]
    for search in ("exhaustive", "stage_one"):
        for way in ("text_to_image", "image_to_text"):
            firsts = [100 * float((ranks[f"{whose}{search}_{way}"] == 0).mean()) for whose in ("", "against_")]
            assert firsts == pytest.approx([report[search][way]["r1"], other[search][way]["r1"]])
            assert other["difference"][search][way]["r1"] == pytest.approx(firsts[0] - firsts[1])
    low, high = other["difference"]["exhaustive"]["interval"]["rsum"]
    assert low <= other["difference"]["exhaustive"]["rsum"] <= high
    assert ranks["picture_of_caption"].tolist() == [row for row in ranks["pictures"] for _ in range(5)]
    assert (about["split"], about["extractor"], len(about["weights"])) == ("dev", "mine-first-4", 2)
    said = regard("evaluate", "--model", best, "--split", "dev", *named, *compared[:2])[1]
    assert said.startswith(f"{best}: 5 pictures")  # both models are called scan-t2i-avg
    assert f"\n{compared[1]} instead, every pair " in said
    assert "\ndifference from it, every pair" in said
    assert "what a shortlist holds" not in said  # the shortest is of more than these
    status, _, noted = regard("evaluate", "--model", best, "--model", best, *named)
    assert (status, "--against compares it" in noted) == (2, True)
    status, _, noted = regard("evaluate", "--model", best, "--split", "dev", *named[:4])
    assert (status, "these are of bottom-up-36: give --extractor mine if it made --precomp" in noted) == (1, True)
    status, _, noted = regard("ingest-features", own, "--split", "dev", "--data-dir", data, "--extractor", "mine")
    assert status == 0, noted
    served = LoadedModels.from_settings(Settings(data_dir=data, models=(str(best),), device="cpu"))
    assert served.extractor.digest == "mine"
    assert set(built(data, load_matcher(best)).matchers) == {"scan-t2i-avg"}


def test_a_batch_that_pictures_do_not_fill_is_noted(regard: Regard, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        scan_layout(tmp_path / "own", arrays(), split)
    changes = as_changes("most_steps=1")
    train = ["train", "scan-t2i-avg-flickr8k", "--precomp", tmp_path / "own", "--device", "cpu", *changes]
    for batch, is_noted in ((400, True), (5, False)):
        status, _, noted = regard(*train, "--out", tmp_path / str(batch), "--set", f"batch={batch}")
        assert (status, f"a batch holds 5 pictures, not {batch}" in noted) == (0, is_noted), noted


def test_an_end_is_explained_and_can_be_moved(regard: Regard, tmp_path: Path) -> None:
    for split in ("train", "dev"):
        scan_layout(tmp_path, arrays(), split)
    for changes, expected in (
        (("epochs=1", "most_steps=9"), "it ends with epochs=1, after 5 of most_steps=9: set epochs too"),
        (("epochs=1",), "--set epochs may take it further"),
        (("epochs=4", "patience=1"), "(of at most 20; 1 validations without a better rsum ended it"),
        (("epochs=4", "patience=1"), "--set patience may take it further"),
    ):
        given = as_changes("batch=5", "learning_rate=0", *changes)
        told = "".join(regard("train", "scan-t2i-avg-f30k", "--out", tmp_path, "--precomp", tmp_path, *given)[1:])
        assert expected in told
    assert json.loads((tmp_path / "recipe.json").read_text())["recipe"]["epochs"] == 4


def test_few_pictures_to_measure_on_are_noted(regard: Regard, tmp_path: Path) -> None:
    own, few = tmp_path / "own", "recalls on so few pictures ({}) are meaningless: use at least 50"
    for split, times in (("train", 1), ("dev", 10)):
        scan_layout(own, np.tile(arrays(), (times, 1, 1)), split)
    changes = as_changes("most_steps=1", "batch=5")
    given = ["--precomp", own, "--device", "cpu"]
    train = ["train", "scan-t2i-avg-flickr8k", *given, *changes]
    status, _, noted = regard(*train, "--out", tmp_path / "run")
    assert (status, "so few pictures" in noted) == (0, False), noted
    noted = regard(*train, "--out", tmp_path / "other", "--set", "validate_images=49")[2]
    assert few.format(49) in noted
    measure = ["evaluate", "--model", tmp_path / "run" / "best", *given, "--split", "dev"]
    assert "so few pictures" not in regard(*measure)[2]
    assert few.format(7) in regard(*measure, "--first", "7")[2]


def test_one_option_of_the_model_is_changed_and_the_result_is_measured_as_told(regard: Regard, tmp_path: Path) -> None:
    own, out = tmp_path / "my own", tmp_path / "run"
    for split, times in (("train", 1), ("dev", 10), ("test", 2)):
        scan_layout(own, np.tile(arrays(), (times, 1, 1)), split)
    changes = as_changes("most_steps=2", "batch=5", "options.lambda_softmax=5")
    given = ["train", "scan-t2i-avg-flickr8k", "--precomp", own, "--extractor", "mine", "--regions", "4", *changes]
    status, said, noted = regard(*given, "--out", out)
    assert status == 0, noted
    assert json.loads((out / "best" / "config.json").read_text())["options"]["lambda_softmax"] == 5
    assert f"rsum {(rsum := said.split('rsum ')[1].split()[0])} on 50 dev pictures" in said
    command = shlex.split(said.split("`")[1])
    measured = regard(*command[1:])[1]
    assert measured.startswith("scan-t2i-avg: 50 pictures, 250 captions of split dev;")
    assert measured.splitlines()[2].split()[-1] == rsum
    assert regard("evaluate", *command[2:4], "--precomp", own, *command[6:8], "--regions", "4")[1].startswith(
        "scan-t2i-avg: 10 pictures, 50 captions of split test;"
    )
    for wrong, told in (
        ("options.lambda=5", "scan-t2i-avg has no option lambda; it has: "),
        ("options.lambda_softmax=6", "options.lambda_softmax is set to 5 as well"),
        ("options=6", "options: must be a dictionary"),
        ("width.lambda=5", "write name=value, with a name of the recipe"),
        ("options.=5", "write name=value, with a name of the recipe"),
    ):
        status, _, noted = regard(*given, "--out", tmp_path / "other", "--set", wrong)
        assert (status, told in noted) == (1, True), noted


def test_photographs_are_all_there_and_what_is_validated_on_has_captions(tmp_path: Path) -> None:
    captions = tmp_path / "captions.jsonl"
    lines = [
        {"image": "a.png", "captions": ["red"], "split": "train"},
        {"image": "b.heic", "captions": ["a card"], "split": "dev"},
        {"image": "c.png", "captions": [], "split": "dev"},
    ]

    def write(*chosen: int) -> None:
        captions.write_text("".join(json.dumps(lines[number]) + "\n" for number in chosen))

    write(0, 1)
    two_coloured("red", "red").save(tmp_path / "a.png")
    with pytest.raises(UserError, match=r"lacks 1 of 2 captioned pictures, as b\.heic"):
        read_photographs(captions, "train", "dev")
    shutil.copy(HEIC, tmp_path / "b.heic")
    found = read_photographs(captions, "train", "dev")
    assert [line.image for line in (*found.train, *found.dev)] == ["a.png", "b.heic"]
    assert open_upright(tmp_path / "b.heic").width > 0  # as trainings read it
    two_coloured("red", "red").save(tmp_path / "c.png")
    write(0, 1, 2)
    with pytest.raises(UserError, match=r"1 pictures of split dev have no caption, such as c\.png"):
        read_photographs(captions, "train", "dev")
    assert len(read_photographs(captions, "train", None).train) == 1


@pytest.mark.slow
def test_a_process_that_loads_a_detector_reads_every_format(tmp_path: Path) -> None:
    """As one on another node does, which looks for regions and does nothing else before."""
    program = (
        "import sys; from pathlib import Path; from service.cli.feature_extraction import load_detector;"
        "from models.datasets.photographs import open_upright; load_detector(Path(sys.argv[1]), 'cpu');"
        "print(open_upright(Path(sys.argv[2])).size)"
    )
    command = [sys.executable, "-c", program, str(small_service(tmp_path)["detector"]), str(HEIC)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert ran.stdout == "(120, 80)\n"
