"""Models as settings name them, and ensembles of them through the whole service."""

from pathlib import Path

import pytest

from models.kernels.library import KernelLibrary, NoKernels
from models.matching.ensemble import Ensemble
from models.matching.lazy_matcher import MatcherHeader
from service import model_loading
from service.api.schemas.results import ImageAnswer, TextAnswer
from service.errors import Misconfigured
from service.model_loading import LoadedModels, device_of, load_model, load_models
from service.model_names import check_models, model_name, shown_name
from service.settings import Settings
from tests.support.fakes import FakeExtractor
from tests.support.kernels import load_kernels
from tests.support.pictures import encoded
from tests.support.small_matchers import small_weights
from tests.support.web_app import Web, checked, problem
from tests.support.worker_store import Store, noise


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two trainings, which is the current one."""
    small_weights(tmp_path / "runs" / "scan-t2i-avg", "scan-t2i-avg", 1)
    small_weights(tmp_path / "runs" / "other" / "best", "scan-i2t-avg", 2)
    small_weights(tmp_path / "runs" / "bfan", "bfan-equal", 3)
    monkeypatch.chdir(tmp_path / "runs")
    return tmp_path / "runs"


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("caan", "caan"),
        ("scan-t2i-avg", "scan-t2i-avg"),
        ("other/best", "best"),
        ("other/best/", "best"),
        ("mine=other/best", "mine"),
        ("scan-t2i-avg+other/best", "scan-t2i-avg+best"),
        (".", "runs"),
    ],
)
def test_a_model_is_served_under_its_folders_name_or_the_one_given(entry: str, name: str, folders: Path) -> None:
    assert model_name(entry) == name


def test_a_folder_whose_name_has_a_plus_or_an_equals_sign_is_one_model(folders: Path) -> None:
    small_weights(folders / "a+b", "scan-t2i-avg", 4)
    small_weights(folders / "lr=1" / "best", "scan-t2i-avg", 5)
    assert list(load_models(["a+b", "x=lr=1/best"], "cpu")) == ["a+b", "x"]
    assert load_model("a+b", "cpu").name == "scan-t2i-avg"


def test_folders_of_ones_own_load_by_name_and_share_weights_with_their_mean(folders: Path) -> None:
    models = load_models(["scan-t2i-avg", "i2t=other/best", "scan-t2i-avg+i2t"], "cpu")
    assert list(models) == ["scan-t2i-avg", "i2t", "scan-t2i-avg+i2t"]
    assert models["i2t"].name == "scan-i2t-avg"
    mean = models["scan-t2i-avg+i2t"]
    assert isinstance(mean, Ensemble)
    assert mean.members[0] is models["scan-t2i-avg"]
    assert len({matcher.digest for matcher in models.values()}) == 3


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        (["nonsense"], "no model called nonsense is shipped"),
        (["mine=scan-t2i-avg+i2t"], "NAME=FOLDER names a folder of weights, and there is no folder"),
        (["scan-t2i-avg+"], r"scan-t2i-avg\+ is the mean of models, and one beside a \+ has no name"),
        (["scan-t2i-avg+scan-t2i-avg"], "names one of them twice"),
        (["detector"], "no model called detector is shipped"),
        (["no/such/folder"], "no/such/folder holds no checkpoint"),
        (["bfan", "x=bfan", "x=other/best"], "two models are called x"),
        (["scan-t2i-avg+bfan"], r"scan-t2i-avg\+bfan: .*different scales"),
        (["bfan+nonsense"], "no model called nonsense"),
    ],
)
def test_what_cannot_be_loaded_is_said_in_words(entries: list[str], words: str, folders: Path) -> None:
    with pytest.raises(Misconfigured, match=words):
        load_models(entries, "cpu")


@pytest.mark.parametrize(
    ("entry", "name"),
    [
        ("other/best", "other/best"),
        ("mine=other/best", "mine"),
        ("caan", "caan"),
        ("scan-t2i-avg+other/best", "scan-t2i-avg+other/best"),
    ],
)
def test_a_training_is_shown_by_its_folder(entry: str, name: str, folders: Path) -> None:
    assert shown_name(entry) == name


def test_trainings_are_told_apart_where_their_mean_is_refused(folders: Path) -> None:
    small_weights(folders / "camp" / "best", "camp", 1)
    with pytest.raises(Misconfigured, match=r"^camp/best\+other/best: camp\+scan-i2t-avg is no ensemble"):
        load_model("camp/best+other/best", "cpu")


def test_the_folder_of_a_training_says_where_its_weights_are(folders: Path) -> None:
    with pytest.raises(Misconfigured, match="other is what a training wrote, and its weights are in other/best: name"):
        check_models(["other"])


def test_views_are_named_as_models_are_served(folders: Path) -> None:
    settings = Settings(models=("i2t=other/best", "scan-t2i-avg"), views=("i2t",))
    assert settings.built_views == ("i2t",)
    assert Settings(models=("other/best",), views=("best",)).built_views == ("best",)


NAMES = ("scan-t2i-avg", "i2t=other/best", "scan-t2i-avg+i2t")


@pytest.fixture
def settings(folders: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings that name two trainings and their mean."""
    detector = FakeExtractor()
    monkeypatch.setattr(model_loading, "extractor_of", lambda *arguments: detector)
    return Settings(data_dir=folders / "data", models=NAMES, device="cpu", decode_workers=1)


def test_the_default_alone_is_read_at_the_start_and_shared_with_what_is_read_later(settings: Settings) -> None:
    started = LoadedModels.from_settings(settings, at_first_use=True)
    assert in_memory(started) == {"scan-t2i-avg": True, "i2t": False, "scan-t2i-avg+i2t": False}
    both = started.models["scan-t2i-avg+i2t"]
    whole = LoadedModels.from_settings(settings)
    assert all(in_memory(whole).values())
    headers = {name: model.header for name, model in started.models.items()}
    assert headers == {name: MatcherHeader.of(matcher) for name, matcher in whole.matchers.items()}
    assert not both.loaded
    mean = both.matcher
    assert isinstance(mean, Ensemble)
    assert mean.members[0] is started.matcher("scan-t2i-avg")
    assert started.models["i2t"].loaded  # as a member of the mean
    every = LoadedModels.from_settings(settings.model_copy(update={"preload": True}), at_first_use=True)
    assert in_memory(every) == in_memory(whole)


def in_memory(loaded: LoadedModels) -> dict[str, bool]:
    return {name: model.loaded for name, model in loaded.models.items()}


def test_a_worker_reads_what_it_encodes_for_and_the_rest_when_asked(settings: Settings) -> None:
    own = settings.model_copy(update={"views": ("scan-t2i-avg+i2t",)})
    started = LoadedModels.from_settings(own, at_first_use=True)
    assert [matcher.name for matcher in started.in_views()] == ["scan-t2i-avg+scan-i2t-avg"]
    plain, i2t = started.on_request()
    assert [one.header.name for one in (plain, i2t)] == ["scan-t2i-avg", "scan-i2t-avg"]
    alone = LoadedModels.from_settings(settings.model_copy(update={"views": ("scan-t2i-avg",)}), at_first_use=True)
    assert [matcher.name for matcher in alone.in_views()] == ["scan-t2i-avg"]
    assert [one.loaded for one in alone.on_request()] == [False, False]


@pytest.mark.parametrize("folder", ["scan-t2i-avg", "other/best"])
def test_damage_ends_the_start_also_of_a_model_that_is_not_read_then(folder: str, settings: Settings) -> None:
    weights = Path(folder) / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(Misconfigured, match=f"{folder}: files give digest"):
        LoadedModels.from_settings(settings, at_first_use=True)


def test_damage_after_the_start_is_a_problem_of_the_model_and_its_means(settings: Settings) -> None:
    started = LoadedModels.from_settings(settings, at_first_use=True)
    store = Store(settings.data_dir)
    store.accept(encoded(noise(1), "PNG"))
    store.drain(matchers=LoadedModels.from_settings(settings).in_views())
    store.catalog.close()
    weights = Path("other") / "best" / "model.safetensors"
    content = weights.read_bytes()
    weights.unlink()
    web = Web(settings, started)
    for name in ("i2t", "scan-t2i-avg+i2t"):
        assert problem(web.text("red", model=name), 503, "model-not-loaded")["model"] == name
    assert checked(web.text("red"), 200, TextAnswer)["model"] == "scan-t2i-avg"
    weights.write_bytes(content)
    for name in ("scan-t2i-avg+i2t", "i2t"):
        assert checked(web.text("red", model=name), 200, TextAnswer)["model"] == name
    assert all(model["loaded"] for model in web.get("/models").json()["models"])
    web.close()


def test_models_use_the_kernels_unless_these_are_turned_off(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernels = load_kernels()
    for wanted in (True, False):
        chosen = settings.model_copy(update={"kernels": wanted})
        loaded = LoadedModels.from_settings(chosen)
        later = LoadedModels.from_settings(chosen, at_first_use=True)
        for matchers in (loaded.matchers.values(), later.matchers.values()):
            used = [matcher.kernels for matcher in matchers]
            assert [one and one.target for one in used] == [kernels.target if wanted else None] * 3
    monkeypatch.setattr(model_loading, "load_library", without_kernels)
    loaded = LoadedModels.from_settings(settings)
    assert [matcher.kernels for matcher in loaded.matchers.values()] == [None] * 3


def without_kernels() -> KernelLibrary:
    raise NoKernels("they are not built")


PLAIN, TOGETHER = "scan-t2i-avg", "scan-t2i-avg+i2t"


def test_an_ensemble_is_served_by_its_name(folders: Path) -> None:
    store = Store(folders / "data")
    for seed in range(6):
        store.accept(encoded(noise(seed), "PNG"), captions=["red green", "blue"])
    names = (PLAIN, "i2t=other/best", TOGETHER)
    settings = Settings(data_dir=store.folder, decode_workers=1, models=names, views=(PLAIN, TOGETHER))
    loaded = LoadedModels.of(FakeExtractor(), load_models(names, "cpu"), views=settings.built_views)
    store.drain(matchers=loaded.in_views())
    store.catalog.close()
    web = Web(settings, loaded)
    together, plain = (checked(web.text("red green", model=name), 200, TextAnswer) for name in (TOGETHER, PLAIN))
    assert together["model"] == TOGETHER
    ranks = [{hit["image_id"]: hit["shortlist_rank"] for hit in one["results"]} for one in (together, plain)]
    assert len(ranks[0]) == 6
    assert ranks[0] == ranks[1]  # the shortlist is the first member's
    assert [hit["score"] for hit in together["results"]] != [hit["score"] for hit in plain["results"]]
    form = {"image_id": (None, plain["results"][0]["image_id"]), "model": (None, TOGETHER)}
    captions = checked(web.request("POST", "/search/image", files=form), 200, ImageAnswer)
    assert {hit["text"] for hit in captions["results"]} == {"red green", "blue"}
    problem(web.text("red", model="i2t"), 409, "view-not-built")
    assert problem(web.text("red", model="i2t+scan-t2i-avg"), 404, "unknown-model")["known"] == [PLAIN, "i2t", TOGETHER]
    assert web.request("POST", f"/models/{TOGETHER}/build").json()["state"] == "ready"
    assert web.request("POST", "/models/i2t/build").status_code == 202
    store = Store(store.folder)
    for _ in range(2):  # asked for once, it is kept up by every later worker
        store.drain(matchers=loaded.in_views(), on_request=[loaded.models["i2t"]])
        i2t = checked(web.text("red green", model="i2t"), 200, TextAnswer)
        assert len(i2t["results"]) == store.catalog.num_slots()
        store.accept(encoded(noise(9), "PNG"))
    store.catalog.close()
    web.close()


@pytest.mark.parametrize("name", ["cuda:99", "cudda", "cuda:", "cuda:x", "CPU", ""])
def test_a_device_that_is_not_there_is_said_in_words(name: str) -> None:
    with pytest.raises(Misconfigured, match=f"no device {name} that"):
        device_of(name)


def test_automatic_is_a_device_that_is_there() -> None:
    assert device_of(device_of("auto")) in ("cpu", "cuda")
