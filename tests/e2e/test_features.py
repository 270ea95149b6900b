"""From published features to answers without a single picture: convert, train, ingest, serve."""

import json
import random
import subprocess
from pathlib import Path
from typing import Any

import pytest

from models.datasets.feature_store import ExtractedFeatures, open_features
from tests.e2e.stack import REGARD, Stack, until

pytestmark = [pytest.mark.timeout(2000), pytest.mark.realdata]

NAME = "bottom-up-36"
RECIPE = {
    **{"width": 32, "word_dim": 16, "batch": 10, "least_count": 1, "validate_images": 10, "patience": 100},
    **{"warmup_steps": 40, "epochs": 6, "learning_rate": 5e-3, "averaging": 0.9, "weight_decay": 0},
    **{"feature_dropout": 0, "word_dropout": 0, "region_dropout": 0},
}


def sentences(found: ExtractedFeatures, row: int) -> list[str]:
    """What a picture's regions are called, in four orders."""
    names = list(dict.fromkeys(found.label_names[label] for label in found.labels[row]))[:6]
    return [" ".join(random.Random(seed).sample(names, len(names))) for seed in range(4)]


def write_captions(path: Path, captions: dict[str, list[str]]) -> None:
    """A captions file of one split."""
    lines = [json.dumps({"image": name, "captions": texts, "split": "train"}) for name, texts in captions.items()]
    path.write_text("\n".join(lines) + "\n")


def test_published_features_are_learned_from_and_searched(data_dir: Path, tmp_path: Path) -> None:
    sample = data_dir / "butd-sample"
    objects = str(sample / "genome" / "1600-400-20" / "objects_vocab.txt")
    tsv, features, captions = str(sample / "train2014_obj36.tsv"), tmp_path / "features", tmp_path / "captions.jsonl"
    with Stack(tmp_path / "stack", {"REGARD_MODELS": f"scan={tmp_path / 'run' / 'best'}"}) as stack:

        def regard(*arguments: object) -> Any:
            command = [REGARD, *map(str, arguments)]
            ran = subprocess.run(command, check=False, capture_output=True, text=True, env=stack.environment())
            assert ran.returncode == 0, ran.stderr
            return json.loads(ran.stdout) if "--json" in arguments else None

        regard("convert", "tsv", tsv, "--objects", objects, "--out", features)
        found = open_features(features)
        said = {name: sentences(found, row) for row, name in enumerate(found.ids)}
        write_captions(captions, said)
        changes = [part for name, value in RECIPE.items() for part in ("--set", f"{name}={value}")]
        out = ["--dev", "train", "--out", tmp_path / "run", "--device", "cpu"]
        regard("train", "scan-t2i-avg-flickr8k", "--features", features, "--captions", captions, *out, *changes)
        options = ["--objects", objects, "--captions", captions, "--data-dir", stack.data, "--json"]
        taken = regard("ingest-features", tsv, *options)
        assert taken.pop("accepted") == 10
        assert not any(taken.values())
        stack.start("all")
        stack.wait_ready()
        until(lambda: stack.get("/models")["models"][0]["state"] == "ready", "the view was never built")
        for name, texts in said.items():
            (best,) = stack.search(texts[0], k=1, explain=True)["results"]
            assert best["filename"] == name
            assert best["url"] is None
            assert set(best["captions"]) == set(texts)
            assert len(best["explanation"]["regions"]) == 36
            assert sum(best["explanation"]["contributions"]) == pytest.approx(best["score"], abs=1e-4)
            form = {"image_id": (None, best["image_id"]), "k": (None, "1")}
            answer = stack.client.post("/search/image", files=form)
            (described,) = answer.json()["results"]
            assert described["text"] in texts
            assert stack.client.get(f"/images/{best['image_id']}").status_code == 404
            assert stack.client.get(f"/images/{best['image_id']}/thumbnail").status_code == 404
            regions = stack.get(f"/images/{best['image_id']}/regions")
            assert (regions["extractor"], len(regions["regions"])) == (NAME, 36)
        photo = (sample / "images" / f"{next(iter(said))}.jpg").read_bytes()
        for path, field in (("/ingest", "images"), ("/search/image", "image")):
            assert stack.client.post(path, files={field: ("a.jpg", photo)}).status_code == 409
        # A worker writes here, so nobody else may; asked to end it leaves the directory to others.
        command = [REGARD, "ingest-features", tsv, "--data-dir", str(stack.data)]
        refused = subprocess.run(command, check=False, capture_output=True, text=True, env=stack.environment())
        assert (refused.returncode, "only one worker may write" in refused.stderr) == (1, True)
        stack.stop("all")
        assert regard("ingest-features", tsv, *options)["duplicates"] == 10
