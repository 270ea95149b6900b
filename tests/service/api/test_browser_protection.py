"""Answers as browsers get them: no page of another site can use or read them, and nothing is loaded from elsewhere."""

import io
import re
import time
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from service.api.middleware.content_policy import PAGE_SOURCES
from service.api.openapi.docs_page import docs_page
from tests.support.library import Library, two_coloured
from tests.support.web_app import Api, png, problem, served


@pytest.fixture
def api(tmp_path: Path) -> Iterator[Api]:
    with served(Library(tmp_path), allowed_hosts=("photos.example.org",)) as api:
        yield api


@pytest.fixture
def image_id(api: Api) -> str:
    answer = api.request("POST", "/ingest", files=[("images", ("a.png", png(two_coloured("red", "blue"))))])
    api.library.work(api.services.storage.originals, api.services.pool)
    found: str = answer.json()["accepted"][0]["image_id"]
    return found


def policy(header: str) -> dict[str, str]:
    return dict(part.strip().partition(" ")[::2] for part in header.split(";"))


def test_every_answer_is_closed_to_other_sites(api: Api, image_id: str) -> None:
    for path in ("/livez", "/docs", "/nowhere", f"/images/{image_id}", f"/images/{image_id}/thumbnail", "/images"):
        answer = api.get(path)
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        said = policy(answer.headers["content-security-policy"])
        assert said["default-src"] == "'none'"
        assert said["frame-ancestors"] == "'none'"
        assert ("sandbox" in said) == answer.headers["content-type"].startswith("image/")
        assert "access-control-allow-origin" not in answer.headers


def test_a_fault_of_the_server_is_closed_too(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(api.services.storage.catalog), "list_images", lambda *_: 1 / 0)
    answer = api.get("/images")
    problem(answer, 500, "internal-error")
    assert answer.headers["cross-origin-resource-policy"] == "same-origin"


def test_somebody_who_opens_an_address_gets_a_page_that_says_what_is_wrong(api: Api) -> None:
    opened = {"sec-fetch-mode": "navigate", "sec-fetch-site": "none"}
    missing = api.request("GET", "/images/<b>", headers=opened)
    assert (missing.status_code, missing.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert "There is no picture &lt;b&gt;." in missing.text
    assert policy(missing.headers["content-security-policy"])["default-src"] == "'none'"
    elsewhere = api.request("GET", "/", headers={**opened, "host": "nas.example"})
    assert elsewhere.status_code == 421
    assert "REGARD_ALLOWED_HOSTS" in elsewhere.text


def test_requests_of_other_sites_change_nothing(api: Api, image_id: str) -> None:
    rebound = api.request("DELETE", f"/images/{image_id}", headers={"host": "attacker.example"})
    assert "REGARD_ALLOWED_HOSTS" in problem(rebound, 421, "unknown-host")["detail"]
    foreign = {"origin": "https://attacker.example"}
    form = {"images": ("b.png", png(two_coloured("red", "red")))}
    problem(api.request("POST", "/ingest", headers=foreign, files=form), 403, "cross-site-request")
    problem(api.request("OPTIONS", "/ingest", headers=foreign), 403, "cross-site-request")
    embedded = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    problem(api.request("GET", f"/images/{image_id}", headers=embedded), 403, "cross-site-request")
    assert [image["image_id"] for image in api.get("/images").json()["images"]] == [image_id]
    named = api.request("GET", "/livez", headers={"host": "photos.example.org"})
    assert named.status_code == 200


class Links(HTMLParser):
    """Everything a page would load, and whether it holds a script or a style of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.inline: list[str] = []

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = dict(attributes)
        self.addresses += [value for name in ("src", "href") if (value := given.get(name))]
        if tag in ("script", "style") and "src" not in given:
            self.inline.append(tag)
        self.inline += [name for name in given if name.startswith("on") or name == "style"]


def test_the_description_of_the_routes_loads_nothing_from_elsewhere(api: Api) -> None:
    page = api.get("/docs")
    assert page.headers["content-type"].startswith("text/html")
    links = Links()
    links.feed(page.text)
    assert links.addresses
    assert [address for address in links.addresses if not re.match(r"[/#](?!/)", address)] == []
    assert links.inline == []
    assert policy(page.headers["content-security-policy"]) == PAGE_SOURCES
    for address in {address for address in links.addresses if address.startswith("/")}:
        assert api.get(address).status_code == 200
    for path, methods in api.get("/openapi.json").json()["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}</code>" in page.text
            assert f'id="{operation["operationId"]}"' in page.text
    assert "`" not in re.sub("<pre>.*?</pre>", "", page.text, flags=re.DOTALL)
    assert page.text.count("There is no such picture, job or route.") == 1
    assert page.text.count("404 not-found</code>") > 2


def test_no_text_of_a_document_becomes_markup() -> None:
    evil = "<script>alert(1)</script>"
    operation = {"operationId": "a", "summary": evil, "responses": {"200": {"description": evil}}}
    document = {"info": {"title": evil, "version": "1"}, "paths": {"/x": {"get": operation}}}
    assert "<script" not in docs_page(document)
    operation["description"] = "`<b>` of `a`"
    assert "<code>&lt;b&gt;</code> of <code>a</code>" in docs_page(document)


def test_a_head_that_is_too_long_is_refused_however_it_comes(api: Api) -> None:
    assert api.get("/images", filter=" " * 20_000 + "{}").status_code == 200
    problem(api.request("GET", "/livez", headers={"x-long": "x" * 33_000}), 400, "bad-request")
    problem(api.request("GET", "/livez?" + "x" * 33_000), 400, "bad-request")


def test_a_compressed_body_is_refused(api: Api) -> None:
    for encoding, status in (("gzip", 415), ("Identity", 200)):
        headers = {"content-encoding": encoding, "content-type": "application/json"}
        answer = api.request("POST", "/search/text", content=b'{"query": "red"}', headers=headers)
        assert answer.status_code == status


def test_head_is_get_without_the_body(api: Api, image_id: str) -> None:
    for path in ("/livez", "/models", f"/images/{image_id}", f"/images/{image_id}/thumbnail", "/docs", "/openapi.json"):
        whole, head = api.get(path), api.request("HEAD", path)
        assert (head.status_code, head.content) == (200, b"")
        for name in ("content-type", "content-length", "etag"):
            assert head.headers.get(name) == whole.headers.get(name)
    assert 'regard_requests_total{route="/livez",status="200"} 2.0' in api.get("/metrics").text
    assert api.request("HEAD", "/nowhere").status_code == 404
    refused = api.request("HEAD", "/search/text")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")
    assert api.request("PUT", "/livez").headers["allow"] == "GET, HEAD"


@pytest.mark.parametrize(
    ("asked", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=10-", slice(10, None)),
        ("bytes=-5", slice(-5, None)),
        ("bytes=0-99999999", slice(0, None)),
    ],
)
def test_a_part_of_a_picture_is_sent(api: Api, image_id: str, asked: str, part: slice) -> None:
    for path in (f"/images/{image_id}", f"/images/{image_id}/thumbnail"):
        whole = api.get(path)
        assert whole.headers["accept-ranges"] == "bytes"
        answer = api.request("GET", path, headers={"range": asked})
        assert (answer.status_code, answer.content) == (206, whole.content[part])
        assert answer.headers["content-range"].endswith(f"/{len(whole.content)}")
        assert answer.headers["etag"] == whole.headers["etag"]
        stale = api.request("GET", path, headers={"range": asked, "if-range": '"other"'})
        assert (stale.status_code, stale.content) == (200, whole.content)


@pytest.mark.parametrize(
    "asked", ["bytes=9-3", "bytes=a-b", "bytes=-", "bytes=0-1,5-6", "lines=1-2", "bytes", "", "bytes=" + "9" * 5000]
)
def test_a_range_that_makes_no_sense_is_no_range(api: Api, image_id: str, asked: str) -> None:
    answer = api.request("GET", f"/images/{image_id}", headers={"range": asked})
    assert answer.status_code == 200


@pytest.mark.parametrize("asked", ["bytes=99999999-", "bytes=-0"])
def test_a_part_behind_the_end_is_a_problem_document(api: Api, image_id: str, asked: str) -> None:
    size = len(api.get(f"/images/{image_id}").content)
    whole = api.get(f"/images/{image_id}").headers
    for copy in (None, whole["etag"], whole["last-modified"]):
        headers = {"range": asked} | ({} if copy is None else {"if-range": copy})
        answer = api.request("GET", f"/images/{image_id}", headers=headers)
        problem(answer, 416, "range-not-satisfiable")
        assert answer.headers["content-range"] == f"bytes */{size}"
    assert api.request("GET", f"/images/{image_id}", headers={"range": asked, "if-range": '"old"'}).status_code == 200


@pytest.mark.parametrize("given", ["*", '"other", {tag}', "W/{tag}", "{tag},"])
def test_a_copy_is_recognised_in_every_form(api: Api, image_id: str, given: str) -> None:
    for path in (f"/images/{image_id}", f"/images/{image_id}/thumbnail"):
        tag = api.get(path).headers["etag"]
        answer = api.request("GET", path, headers={"if-none-match": given.format(tag=tag)})
        assert (answer.status_code, answer.content) == (304, b"")
    missing = api.request("GET", f"/images/{'0' * 32}", headers={"if-none-match": "*"})
    assert missing.status_code == 404


@pytest.mark.parametrize(
    ("header", "of_its_date", "of_before"), [("if-modified-since", 304, 200), ("if-unmodified-since", 200, 412)]
)
def test_a_copy_is_told_by_the_date_of_its_file(
    api: Api, image_id: str, header: str, of_its_date: int, of_before: int
) -> None:
    path = f"/images/{image_id}"
    for since, status in (
        (api.get(path).headers["last-modified"], of_its_date),
        ("Fri, 31 Dec 9999 23:59:59 GMT", of_its_date),
        ("Mon, 01 Jan 1990 00:00:00 GMT", of_before),
        ("yesterday", 200),
    ):
        assert api.request("GET", path, headers={header: since}).status_code == status


def test_a_date_without_a_zone_is_one_of_utc(api: Api, image_id: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/images/{image_id}"
    date = api.get(path).headers["last-modified"].replace("GMT", "-0000")
    try:
        with monkeypatch.context() as elsewhere:
            elsewhere.setenv("TZ", "EAST-14")
            time.tzset()
            assert api.request("GET", path, headers={"if-modified-since": date}).status_code == 304
            assert api.request("GET", path, headers={"if-unmodified-since": date}).status_code == 200
    finally:
        time.tzset()


def test_a_tag_goes_before_a_date(api: Api, image_id: str) -> None:
    path = f"/images/{image_id}"
    whole = api.get(path)
    unlike = {"if-modified-since": whole.headers["last-modified"], "if-none-match": '"other"'}
    alike = {"if-unmodified-since": "Mon, 01 Jan 1990 00:00:00 GMT", "if-match": whole.headers["etag"]}
    for both in (unlike, alike):
        assert api.request("GET", path, headers=both).status_code == 200


def test_a_tag_inside_another_is_not_recognised(api: Api, image_id: str) -> None:
    tag = api.get(f"/images/{image_id}").headers["etag"]
    answer = api.request("GET", f"/images/{image_id}", headers={"if-none-match": f'"x{tag[1:]}'})
    assert answer.status_code == 200
    assert io.BytesIO(answer.content).read(4) == b"\x89PNG"


def test_another_file_than_the_one_asked_for_is_refused(api: Api, image_id: str) -> None:
    for path in (f"/images/{image_id}", f"/images/{image_id}/thumbnail", f"/images/{image_id}/original", "/"):
        tag = api.get(path).headers["etag"]
        for given, status in ((tag, 200), ("*", 200), (f'"other", {tag}', 200), ('"other"', 412), (f"W/{tag}", 412)):
            assert api.request("GET", path, headers={"if-match": given}).status_code == status
        refused = api.request("GET", path, headers={"if-match": '"other"', "if-none-match": tag, "range": "bytes=0-9"})
        assert tag in problem(refused, 412, "precondition-failed")["detail"]
