"""The mean scores of several models get a calibration of their own, which counts for these very weights alone."""

import json
import threading
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.scan_precomp import PUBLISHED_FEATURES
from models.evaluation.calibration_report import assess_direction
from models.evaluation.evaluate import score_all_pairs
from models.evaluation.fit_calibration import CalibrationPlan, calibrate_ensemble, short_captions
from models.matching.calibration import Calibration
from models.matching.checkpoint import load_matcher, save_matcher
from models.matching.ensemble import build_ensemble
from models.matching.ensemble_calibrations import read_ensemble_calibration, save_ensemble_calibration
from models.matching.log_odds import LogOddsModel
from models.matching.single_matcher import SingleMatcher
from models.whole_files import alone_in
from service.errors import Misconfigured
from service.model_loading import lazy_models
from tests.models.evaluation.test_fit_calibration import captioned_features
from tests.support.cli_runner import Regard
from tests.support.small_matchers import small_matcher

PLAN = CalibrationPlan()


@pytest.fixture
def members(tmp_path: Path) -> list[SingleMatcher]:
    """Two models of one family with words as different as after a training, saved as `a` and `b`."""
    for folder, name in (("a", "scan-t2i-avg"), ("b", "scan-i2t-avg")):
        made = small_matcher(name, extractor=PUBLISHED_FEATURES)
        with torch.no_grad():
            made.reranker.get_parameter("sentence_encoder.embed.weight").mul_(40)
        save_matcher(made, tmp_path / folder)
    return [load_matcher(tmp_path / folder) for folder in "ab"]


@pytest.fixture
def data(members: list[SingleMatcher]) -> CaptionedFeatures:
    return captioned_features(members[0])


def test_the_command_fits_what_is_served_from_then_on(
    regard: Regard, tmp_path: Path, members: list[SingleMatcher], data: CaptionedFeatures
) -> None:
    folder, entry = tmp_path / "precomp", f"{tmp_path / 'a'}+{tmp_path / 'b'}"
    folder.mkdir()
    np.save(folder / "dev_ims.npy", data.features)
    (folder / "dev_caps.txt").write_text("".join(f"{captions[0]}\n" for captions in data.captions))
    fixed = ["--precomp", folder, "--device", "cpu"]
    assert next(iter(lazy_models([entry], "cpu").values())).header.calibration is None
    status, output, _ = regard("calibrate-ensemble", entry, *fixed, "--json")
    report = json.loads(output)
    assert (status, report["pictures"]) == (0, {"fitted": 60, "held_out": 60})
    served = next(iter(lazy_models([entry], "cpu").values()))
    assert served.header.digest == served.matcher.digest == report["digest"] != build_ensemble(members).digest
    calibration = served.matcher.calibration
    assert calibration is not None
    assert calibration == read_ensemble_calibration(tmp_path / "b", [member.digest for member in members])
    assert report["held_out"]["text"]["60"]["error"] < 0.1
    other_way = f"{tmp_path / 'b'}+{tmp_path / 'a'}"
    assert next(iter(lazy_models([other_way], "cpu").values())).header.calibration is None
    status, output, _ = regard("calibrate-ensemble", entry, *fixed)
    assert status == 0
    assert output.count("calibration error") == 2
    status, _, errors = regard("calibrate-ensemble", f"{tmp_path / 'a'}+caan", *fixed)
    assert (status, "copy " in errors) == (1, True)  # what is shipped stays as it is
    status, _, errors = regard("calibrate-ensemble", tmp_path / "a", *fixed)
    assert status == 1
    assert "name two or more models" in errors
    (tmp_path / "b" / "ensembles.json").write_text("[]")
    with pytest.raises(Misconfigured, match=r"ensembles\.json"):
        lazy_models([entry], "cpu")


@pytest.mark.parametrize("long", [0, 4])  # of every five pictures' captions
def test_short_questions_are_brought_to_the_level_of_the_others(
    members: list[SingleMatcher], data: CaptionedFeatures, long: int
) -> None:
    spun_out = [[f"{text} {text}" for text in own] if n % 5 < long else own for n, own in enumerate(data.captions)]
    data = replace(data, captions=spun_out)
    own = Calibration(text=LogOddsModel(1.0, 0.0), image=LogOddsModel(1.0, 0.0))
    first, second = members[0].with_calibration(replace(own, short_question=4)), members[1].with_calibration(own)
    ensemble = build_ensemble([first, second])
    assert ensemble.short_question == 4
    calibration, report = calibrate_ensemble(ensemble, data, PLAN)
    assert calibration.short_question == 4
    served = build_ensemble([first, second], calibration)
    pairs, _ = score_all_pairs(served, data)
    fitted, others = PLAN.split(len(data))
    among = pairs.among(fitted)
    short = short_captions(served, data, 4)[torch.isin(pairs.image_of, fitted)]
    as_question, as_caption = (among.of(direction).amax(1) for direction in ("text", "image"))
    torch.testing.assert_close(as_question[~short], as_caption[~short])
    torch.testing.assert_close(as_question[short].mean(), as_caption[short].mean(), atol=1e-4, rtol=1e-4)
    for direction in ("text", "image"):
        judged = assess_direction(getattr(calibration, direction), pairs, others, direction, PLAN.seed)
        for size, found in judged.items():
            assert found["error"] == pytest.approx(report["held_out"][direction][size]["error"], abs=1e-4)


def test_calibrations_that_come_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    one, other = (Calibration(text=LogOddsModel(scale, 0.0), image=LogOddsModel(1.0, 0.0)) for scale in (1.0, 2.0))
    saving = threading.Thread(target=save_ensemble_calibration, args=(tmp_path, ["a", "c"], other))
    with alone_in(tmp_path):
        saving.start()
        saving.join(0.2)  # which waits, and has not read yet what the file holds
        (tmp_path / "ensembles.json").write_text(json.dumps({"b+c": one.as_dict()}))
    saving.join()
    assert read_ensemble_calibration(tmp_path, ["b", "c"]) == one
    assert read_ensemble_calibration(tmp_path, ["a", "c"]) == other
