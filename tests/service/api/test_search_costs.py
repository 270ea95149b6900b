"""A search is admitted by what it really costs: pairs to score, a sentence to encode, regions to find, a drawing."""

from contextlib import ExitStack

import pytest

from service.api.admission.accelerator import Admission
from service.api.schemas.results import TextAnswer
from service.errors import Overloaded
from service.search.query_costs import DETECTION_COST, DRAWING_COST, PIECE_COST, TYPICAL_WORDS
from service.search.requests import ImageSearchRequest
from tests.support.fakes import FakeMatcher, R
from tests.support.web_app import Api, checked


def test_the_cost_of_a_sentence_counts_its_tokens(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    costs: list[int] = []
    becomes = Admission.becomes

    def counted(place: Admission, cost: int) -> None:
        costs.append(cost)
        becomes(place, cost)

    monkeypatch.setattr(Admission, "becomes", counted)
    monkeypatch.setattr(FakeMatcher, "words", lambda self, sentence: ["<start>", *sentence.replace(",", " , ").split()])
    checked(api.text("red," * 50, shortlist=10), 200, TextAnswer)
    checked(api.text("mauve", shortlist=10), 200, TextAnswer)
    assert costs[0] == costs[1] * 101 / 2


def test_long_sentences_are_refused_by_what_encoding_them_costs(api: Api) -> None:
    search, accelerator = api.services.collection.search, api.services.capacity.accelerator
    most = api.settings.queue_cost // (150 * PIECE_COST)

    def ask(sentences: int) -> None:
        with ExitStack() as stack:
            for number in range(sentences):
                request = api.library.request("a " * 150 + str(number), k=1, shortlist=1)
                stack.enter_context(accelerator.admit(search.costs.of(search.begin(request))))

    ask(most // 2)
    with pytest.raises(Overloaded):
        ask(most + 1)


def test_a_sentence_that_is_kept_encoded_costs_its_pairs_alone(api: Api) -> None:
    search, request = api.services.collection.search, api.library.request("ochre and blue", shortlist=10)
    assert search.costs.of(search.begin(request)) == 10 * R * 5 + 5 * PIECE_COST
    checked(api.text("ochre and blue", shortlist=10), 200, TextAnswer)
    assert search.costs.of(search.begin(request)) == 10 * R * 5
    assert search.costs.expected(request) == TYPICAL_WORDS * (10 * R + PIECE_COST)  # it is not known what is kept
    assert search.costs.of_drawing(search.begin(request)) == 5 * PIECE_COST + DRAWING_COST  # which encodes it anew


def test_an_upload_costs_finding_its_regions_besides(api: Api) -> None:
    search = api.services.collection.search
    query = search.begin(ImageSearchRequest(shortlist=10))
    assert search.costs.of_upload(query) == search.costs.of(query) + DETECTION_COST > DETECTION_COST
