"""The authors' checkpoints become ours: the same numbers, or a refusal that names the reason."""

import os
import pickle
from argparse import Namespace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from models.batches import Regions, Words
from models.conversion.authors_options import CheckpointKind, ConversionError
from models.conversion.convert import convert_checkpoint
from models.datasets.captioned_features import CaptionedFeatures
from models.datasets.captions import read_scored_sentences
from models.evaluation.score_matrix import score_all
from models.matching.checkpoint import load_matcher
from models.matching.single_matcher import SingleMatcher
from models.rerankers.camp_released import CampReleased
from models.rerankers.scan import ScanConfig
from models.safe_load.restricted_pickle import RefusedFile
from tests.support import authors_checkpoints as authors

PARITY = ["scan_t2i_lse", "scan_i2t_avg", "bfan_equal", "bfan_prob"]


@pytest.fixture
def vocab(tmp_path: Path) -> Path:
    return authors.write_vocabulary(tmp_path / "vocab.json")


def converted_scan(folder: Path, model: Any, **changes: Any) -> SingleMatcher:
    """A SCAN checkpoint with some options changed, converted and loaded."""
    file = authors.write(folder / "scan.pth.tar", model, authors.SCAN | changes)
    convert_checkpoint("scan", file, authors.write_vocabulary(folder / "vocab.json"), folder / "out")
    return load_matcher(folder / "out")


@pytest.mark.realdata
@pytest.mark.parametrize("name", PARITY)
def test_a_converted_checkpoint_scores_as_the_authors_program(
    name: str, parity_dir: Path, data_dir: Path, tmp_path: Path
) -> None:
    vocab = data_dir / "scan-precomp-text" / "vocab" / "f30k_precomp_vocab.json"
    kind: CheckpointKind = "scan" if name.startswith("scan") else "bfan"
    convert_checkpoint(kind, parity_dir / f"{name}.pth.tar", vocab, tmp_path / "out")
    vectors = np.load(parity_dir / "features.npy")
    data = CaptionedFeatures.from_arrays(vectors, np.ones(vectors.shape[:2], bool), [()] * len(vectors), "")
    sentences = read_scored_sentences(parity_dir / "captions.txt")
    scores = score_all(load_matcher(tmp_path / "out"), data, sentences)
    assert scores.dtype == np.float64
    np.testing.assert_allclose(scores, np.load(parity_dir / f"{name}_scores.npy"), rtol=0, atol=1e-5)
    assert (tmp_path / "out" / "vocabulary.json").read_bytes() == vocab.read_bytes()


def test_weights_are_kept_to_the_last_digit(tmp_path: Path) -> None:
    pictures, sentences = authors.encoders()
    loaded = converted_scan(tmp_path, [pictures, sentences]).reranker.state_dict()
    assert torch.equal(loaded["region_encoder.fc.weight"], pictures["fc.weight"])
    assert torch.equal(loaded["sentence_encoder.rnn.weight_hh_l0_reverse"], sentences["rnn.weight_hh_l0_reverse"])


def test_options_reach_the_model(tmp_path: Path) -> None:
    changes = {"agg_func": "Max", "raw_feature_norm": "no_norm", "lambda_softmax": 5.0, "no_imgnorm": True}
    loaded = converted_scan(tmp_path, authors.encoders(), **changes)
    assert loaded.reranker.config == ScanConfig(
        direction="t2i", normalisation="no_norm", pooling="Max", lambda_softmax=5.0, lambda_lse=6.0
    )
    assert (loaded.encoders.unit_regions, loaded.encoders.unit_words) == (False, True)


def test_a_gru_of_one_direction_stays_one(tmp_path: Path) -> None:
    loaded = converted_scan(tmp_path, authors.encoders(bidirectional=False), bi_gru=False)
    assert not loaded.encoders.bidirectional


def test_weight_norm_is_multiplied_out(tmp_path: Path) -> None:
    pictures, sentences = authors.encoders()
    layer = torch.nn.Linear(authors.FEATURE_DIM, authors.WIDTH)
    layer.load_state_dict({name.removeprefix("fc."): weight for name, weight in pictures.items()})
    scale, direction = torch.tensor(1.7), layer.weight.detach()
    normed = {"fc.bias": pictures["fc.bias"], "fc.weight_g": scale, "fc.weight_v": direction}
    loaded = converted_scan(tmp_path, [normed, sentences], precomp_enc_type="weight_norm")
    expected = torch._weight_norm(direction, scale, -1)
    torch.testing.assert_close(loaded.reranker.get_parameter("region_encoder.fc.weight"), expected)


def test_an_old_file_from_a_gpu_converts_to_the_same_digest(vocab: Path, tmp_path: Path) -> None:
    now = authors.write(tmp_path / "now.pth.tar", authors.encoders(), authors.SCAN)
    then = tmp_path / "then.pth.tar"
    then.write_bytes(authors.from_python_2_and_a_gpu(now.read_bytes()))
    assert convert_checkpoint("scan", now, vocab, tmp_path / "a") == convert_checkpoint(
        "scan", then, vocab, tmp_path / "b"
    )


def test_camp_converts_with_its_prefixes_options_and_pickled_words(tmp_path: Path) -> None:
    weights = authors.fusion()
    file = authors.write_camp(
        tmp_path / "camp.pth.tar", authors.from_gpus([*authors.encoders(), weights]), authors.CAMP
    )
    convert_checkpoint("camp", file, authors.write_camp_vocabulary(tmp_path / "vocab.pkl"), tmp_path / "out")
    loaded = load_matcher(tmp_path / "out")
    assert isinstance(loaded.reranker, CampReleased)
    assert loaded.vocabulary.words == authors.WORDS
    assert (loaded.encoders.unit_regions, loaded.encoders.unit_words) == (False, False)
    torch.testing.assert_close(loaded.reranker.get_parameter("scorer.2.weight"), weights["fc_out.3.weight"])
    torch.testing.assert_close(
        loaded.reranker.get_parameter("region_pool.2.bias"), weights["final_reduce_1.linear.2.bias"]
    )


@pytest.mark.realdata
@pytest.mark.parametrize("network", ["gate_fusion_new", "cross_attention_new"])
def test_camps_fusion_scores_as_the_authors_does_after_conversion(
    network: str, parity_dir: Path, tmp_path: Path
) -> None:
    stored = load_file(parity_dir / f"camp_{network}.safetensors")
    state = {name.removeprefix("state."): part.float() for name, part in stored.items() if name.startswith("state.")}
    model = authors.from_gpus([*authors.encoders(width=64), state])
    options = authors.CAMP | {"measure": network, "embed_size": 64}
    file = authors.write_camp(tmp_path / "camp.pth.tar", model, options)
    convert_checkpoint("camp", file, authors.write_camp_vocabulary(tmp_path / "vocab.pkl"), tmp_path / "out")
    reranker = load_matcher(tmp_path / "out").reranker.double()
    images = Regions(stored["images"], torch.ones(stored["images"].shape[:2], dtype=torch.bool))
    words = Words(stored["captions"], torch.arange(stored["captions"].shape[1]) < stored["lengths"][:, None])
    with torch.no_grad():
        scores = reranker.score(reranker.precompute(images), words).T
    torch.testing.assert_close(scores, stored["scores"], rtol=0, atol=1e-6)


def test_camps_first_stage_converts(tmp_path: Path) -> None:
    attention = {name: weight for name, weight in authors.fusion().items() if name.endswith("_fc.weight")}
    options = authors.CAMP | {"measure": "cross_attention_new"}
    file = authors.write_camp(tmp_path / "camp.pth.tar", authors.from_gpus([*authors.encoders(), attention]), options)
    convert_checkpoint("camp", file, authors.write_vocabulary(tmp_path / "vocab.json"), tmp_path / "out")
    assert load_matcher(tmp_path / "out").name == "camp-released-attention"


def test_stage_one_is_the_mean_vectors_as_they_are(tmp_path: Path) -> None:
    loaded = converted_scan(tmp_path, authors.encoders())
    regions = Regions(torch.randn(3, 4, authors.FEATURE_DIM), torch.ones(3, 4, dtype=torch.bool))
    projected = loaded.reranker.project(regions).vectors.half().float()
    expected = torch.nn.functional.normalize(projected.mean(1), dim=-1)
    torch.testing.assert_close(loaded.encode_regions(regions)[1], expected)
    assert "Stage one was not trained" in (tmp_path / "out" / "card.md").read_text()


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda model, opt: model[0].update({"fc2.weight": torch.ones(2)}), "img.fc2.weight is not known"),
        (lambda model, opt: model[1].pop("rnn.bias_hh_l0"), "txt.rnn.bias_hh_l0 is missing"),
        (lambda model, opt: opt.update(embed_size=9), r"img.fc.bias is \(8,\), not \(9,\)"),
        (lambda model, opt: opt.update(bi_gru=False), "txt.rnn.bias_hh_l0_reverse is not known"),
        (lambda model, opt: model[0].update({"fc.bias": [1.0]}), "img.fc.bias is not a tensor"),
        (lambda model, opt: model.append({"sim_tranloc_w.weight": torch.ones(2)}), "sim.sim_tranloc_w.weight is not"),
        (lambda model, opt: opt.update(num_layers=2), "option num_layers is 2"),
        (lambda model, opt: opt.update(vocab_size=9), "vocab_size is 9, the vocabulary has 8 words"),
        (lambda model, opt: opt.update(margin2=0.3, beta="x"), "unknown options beta='x', margin2=0.3"),
        (lambda model, opt: opt.pop("embed_size"), "option embed_size is None, not of type int"),
        (lambda model, opt: opt.update(lambda_softmax=float("nan")), "the options lambda_softmax are not finite"),
        (
            lambda model, opt: model[0]["fc.weight"].fill_(torch.nan),
            r"img\.fc\.weight holds numbers that are not finite",
        ),
        (lambda model, opt: model.clear(), "`model` is not a list of the two encoders"),
    ],
)
def test_a_refusal_names_what_is_not_known_and_leaves_nothing(
    damage: Any, message: str, vocab: Path, tmp_path: Path
) -> None:
    model, options = authors.encoders(), dict(authors.SCAN)
    damage(model, options)
    file = authors.write(tmp_path / "scan.pth.tar", model, options)
    with pytest.raises(ConversionError, match=message):
        convert_checkpoint("scan", file, vocab, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "bfan",
            authors.SCAN,
            "a checkpoint of SCAN, as its option agg_func tells, and not of BFAN: convert it as scan",
        ),
        ("scan", authors.BFAN, "convert it as bfan"),
        ("scan", authors.CAMP, "convert it as camp"),
    ],
)
def test_a_checkpoint_of_another_kind_is_told(
    kind: Any, options: dict[str, Any], message: str, vocab: Path, tmp_path: Path
) -> None:
    file = authors.write(tmp_path / "other.pth.tar", authors.encoders(), dict(options))
    with pytest.raises(ConversionError, match=message):
        convert_checkpoint(kind, file, vocab, tmp_path / "out")


def test_a_payload_beside_the_weights_does_not_run(vocab: Path, tmp_path: Path) -> None:
    class Payload:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "owned"),)

    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), Namespace(**authors.SCAN, hook=Payload()))
    with pytest.raises(RefusedFile, match=f"names {os.name}.mkdir"):
        convert_checkpoint("scan", file, vocab, tmp_path / "out")
    assert not (tmp_path / "owned").exists()


def test_a_vocabulary_of_another_kind_is_refused(tmp_path: Path) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN)
    with pytest.raises(ConversionError, match="holds idx, idx2word, stems, word2idx"):
        convert_checkpoint("scan", file, authors.write_camp_vocabulary(tmp_path / "v.pkl", stems={}), tmp_path / "out")
    (tmp_path / "v.pkl").write_bytes(pickle.dumps({"dog": 4}, protocol=2))
    with pytest.raises(ConversionError, match="holds a dict, not word2idx"):
        convert_checkpoint("scan", file, tmp_path / "v.pkl", tmp_path / "out")


def test_a_checkpoint_is_not_written_over(vocab: Path, tmp_path: Path) -> None:
    file = authors.write(tmp_path / "scan.pth.tar", authors.encoders(), authors.SCAN)
    convert_checkpoint("scan", file, vocab, tmp_path / "out")
    with pytest.raises(FileExistsError, match="holds a checkpoint already"):
        convert_checkpoint("scan", file, vocab, tmp_path / "out")
