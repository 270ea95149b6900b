"""Large answers are compressed for whoever takes that; short ones are not, nor pictures, which are already."""

import httpx
import numpy as np
import PIL.Image
import pytest

from tests.support.web_app import Api, png

PLAIN, COMPRESSED = {"accept-encoding": "identity"}, {"accept-encoding": "gzip"}


def num_sent(answer: httpx.Response) -> int:
    """The bytes of an answer as they were sent."""
    assert int(answer.headers["content-length"]) == answer.num_bytes_downloaded
    return answer.num_bytes_downloaded


@pytest.mark.parametrize("path", ["/openapi.json", "/page/page.js"])
def test_a_large_text_is_compressed_for_who_takes_that(api: Api, path: str) -> None:
    plain, compressed = (api.request("GET", path, headers=headers) for headers in (PLAIN, COMPRESSED))
    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert {one.headers["vary"] for one in (plain, compressed)} == {"Accept-Encoding"}
    assert compressed.content == plain.content
    assert num_sent(compressed) < num_sent(plain) / 2


def test_the_answer_to_head_is_that_to_get_without_its_body(api: Api) -> None:
    asked, whole = (api.request(method, "/openapi.json", headers=COMPRESSED) for method in ("HEAD", "GET"))
    assert asked.content == b""
    for name in ("content-encoding", "content-length", "content-type", "vary"):
        assert asked.headers[name] == whole.headers[name]


def test_a_short_answer_is_sent_as_it_is(api: Api) -> None:
    assert "content-encoding" not in api.request("GET", "/livez", headers=COMPRESSED).headers


def test_a_picture_is_sent_as_it_is_and_in_parts(api: Api) -> None:
    noise = PIL.Image.fromarray(np.random.default_rng(1).integers(0, 256, (100, 100, 3), dtype=np.uint8))
    sent = png(noise)
    accepted = api.request("POST", "/ingest", files={"images": ("noise.png", sent)}).json()["accepted"]
    api.library.work(api.services.storage.originals, api.services.pool)
    path = f"/images/{accepted[0]['image_id']}/original"
    whole = api.request("GET", path, headers=COMPRESSED)
    assert "content-encoding" not in whole.headers
    assert whole.content == sent
    part = api.request("GET", path, headers={**COMPRESSED, "range": "bytes=5-20004"})
    assert (part.status_code, part.content) == (206, sent[5:20005])
