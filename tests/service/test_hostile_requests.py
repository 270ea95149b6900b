"""Requests that no client means, byte by byte to a real server: each gets a right answer, or is refused in words."""

import gzip
import json
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.auth.api_keys import create_key, session_token
from service.auth.key_file import change_keys
from service.auth.permissions import Permission
from tests.support.library import NOW, Library, image_id_of, two_coloured
from tests.support.pictures import encoded
from tests.support.running_server import running_server

READ, STORED_READ = create_key("read", Permission.READ, NOW)
WRITE, STORED_WRITE = create_key("write", Permission.WRITE, NOW)
JSON = b"Content-Type: application/json"
QUERY = b'{"query": "red"}'
PICTURE = image_id_of("red")
EVIL = b"evil.example"
FORM = b"Content-Type: multipart/form-data; boundary=B"
NAMED = b'Content-Disposition: form-data; name="images"; filename="a.png"'
PNG = encoded(two_coloured("green", "blue"), "PNG")
MANIFEST = b'Content-Disposition: form-data; name="manifest"'
TOO_DEEP = 400 if sys.version_info < (3, 14) else 422  # later ones read it, and find it to be no search


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    folder: Path = tmp_path_factory.mktemp("hostile") / "data"
    library = Library(folder)
    library.add("red", two_coloured("red", "red"))
    library.close()
    change_keys(folder / "keys.json", lambda keys: [STORED_READ, STORED_WRITE])
    with running_server(folder, stall_timeout_s=2.0, header_timeout_s=2.0) as url:
        yield int(url.rpartition(":")[2])
    assert [path.name for path in folder.parent.iterdir()] == ["data"]


def request(
    line: bytes, *headers: bytes, body: bytes = b"", key: str | None = READ, host: bytes | None = b"localhost"
) -> bytes:
    """The bytes of a request; a Content-Length is added where the headers say nothing of a body."""
    lines = [line + (b"" if b" HTTP/" in line else b" HTTP/1.1"), *headers]
    lines += [b"Host: " + host] if host else []
    lines += [f"Authorization: Bearer {key}".encode()] if key else []
    if body and not any(b"ength:" in one or b"Encoding: chunked" in one for one in headers):
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join([*lines, b"", body])


def search(body: bytes, *headers: bytes) -> bytes:
    return request(b"POST /search/text", JSON, *headers, body=body)


def upload(*parts: tuple[bytes, bytes], key: str = WRITE, path: bytes = b"/ingest") -> bytes:
    whole = b"".join(b"--B\r\n%b\r\n\r\n%b\r\n" % part for part in parts)
    return request(b"POST " + path, FORM, body=whole + b"--B--\r\n", key=key)


def answers(port: int, sent: bytes) -> bytes:
    """Everything that comes back until the first answer is whole, or the connection ends."""
    found = b""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(sent)
        while part := connection.recv(65_536):
            found += part
            head, _, body = found.partition(b"\r\n\r\n")
            length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
            if length and len(body) >= int(length[1]):
                break
    return found


CASES: dict[str, tuple[bytes, int]] = {
    # Where a body ends, said twice or wrongly: what a proxy in front and this server might take differently.
    "length and chunked": (request(b"POST /search/text", JSON, b"Content-Length: 4", b"Transfer-Encoding: chunked",
                                   body=b"10\r\n" + QUERY + b"\r\n0\r\n\r\n"), 400),
    "two lengths": (search(QUERY, b"Content-Length: 3", b"Content-Length: 16"), 400),
    "negative length": (search(b"", b"Content-Length: -5"), 400),
    "signed length": (search(QUERY, b"Content-Length: +16"), 400),
    "endless length": (search(QUERY, b"Content-Length: " + b"9" * 30), 400),
    "unknown coding": (search(b"", b"Transfer-Encoding: xchunked", b"Content-Length: 0"), 400),
    "two codings": (search(b"0\r\n\r\n", b"Transfer-Encoding: identity, chunked", b"Length:"), 400),
    "negative chunk": (search(b"-1\r\n{}", b"Transfer-Encoding: chunked"), 400),
    "chunk that never comes": (search(b"FFFFFFFF\r\n{}", b"Transfer-Encoding: chunked"), 408),
    "endless chunk extension": (search(b"1;" + b"a" * 70_000, b"Transfer-Encoding: chunked"), 400),
    "coded body": (search(gzip.compress(QUERY), b"Content-Encoding: gzip"), 415),
    # Heads.
    "two hosts": (request(b"GET /images", b"Host: " + EVIL), 400),
    "two keys": (request(b"GET /images", b"Authorization: Bearer " + WRITE.encode()), 401),
    "two origins": (request(b"GET /images", b"Origin: http://localhost", b"Origin: http://evil.example"), 403),
    "two fetch sites": (request(b"GET /images", b"Sec-Fetch-Site: none", b"Sec-Fetch-Site: cross-site"), 403),
    "bare CR": (request(b"GET /livez", b"X: a\rSet-Cookie: b"), 400),
    "NUL": (request(b"GET /livez", b"X: a\x00b"), 400),
    "space before the colon": (request(b"GET /images", b"X : y"), 400),
    "HTTP/1.0 without host": (request(b"GET /livez HTTP/1.0", host=None, key=None), 200),
    "HTTP/1.0 of another host": (request(b"GET /images HTTP/1.0", host=EVIL), 421),
    "HTTP/0.9": (b"GET /livez\r\n", 408),
    "target of a proxy": (request(b"GET http://evil.example/images"), 421),
    "whole address as a target": (request(b"GET http://localhost/livez", host=EVIL), 200),
    "whole address without a path": (request(b"GET HTTP://localhost", key=None), 200),
    "whole address of a file outside the page": (request(b"GET http://localhost/page/%2e%2e%2fapp.py"), 404),
    "whole address of a large upload": (upload((NAMED, bytes(2**20)), path=b"http://localhost/ingest"), 422),
    "tunnel": (request(b"CONNECT evil.example:443"), 404),
    "asterisk": (request(b"OPTIONS *"), 404),
    "TRACE": (request(b"TRACE /images"), 405),
    "method of 5000 letters": (request(b"A" * 5000 + b" /images"), 405),
    # Keys in odd places and forms.
    "key with a space of Unicode": (request(b"GET /images", b"Authorization: Bearer " + READ.encode() + b"\xa0",
                                            key=None), 401),
    "key with other underscores": (request(b"GET /images", key=READ.replace("_", "\uff3f")), 401),
    "key for a proxy": (request(b"GET /images", b"Proxy-Authorization: Bearer " + READ.encode(), key=None), 401),
    "key as a user": (request(f"GET http://{READ}@localhost/images".encode(), key=None), 401),
    "address of another as its own": (request(b"GET /images", b"X-Forwarded-For: 127.0.0.1", key=None), 401),
    "session that another chose": (request(b"GET /images", b"Cookie: regard_session=rgs_chosen", key=None), 401),
    "session that deletes": (request(f"DELETE /images/{PICTURE}".encode(),
                                     b"Cookie: regard_session=" + session_token(WRITE).encode(), key=None), 403),
    "form of another site that signs in": (request(b"POST /session", b"Content-Type: text/plain", b"Origin: null",
                                                   body=json.dumps({"key": READ}).encode(), key=None), 403),
    "navigation of another site that signs in": (
        request(b"POST /session", JSON, b"Sec-Fetch-Site: cross-site", b"Sec-Fetch-Mode: navigate",
                b"Sec-Fetch-Dest: document", body=json.dumps({"key": READ}).encode(), key=None), 403),
    "key of a megabyte": (request(b"POST /session", JSON, body=b'{"key": "' + b"a" * 1_000_000 + b'"}'), 401),
    "another method in a header": (request(b"POST /search/text", JSON, b"X-HTTP-Method-Override: DELETE",
                                           body=QUERY), 200),
    # Paths and parameters.
    "NUL in a path": (request(f"GET /images/{PICTURE}%00".encode()), 404),
    "overlong UTF-8": (request(b"GET /images/%c0%ae%c0%ae"), 404),
    "id of 20 000 letters": (request(b"GET /images/" + b"a" * 20_000), 404),
    "file outside the page": (request(b"GET /page/%2e%2e%2fapp.py"), 404),
    "half a surrogate pair": (request(b"GET /images?after=%ed%a0%80"), 422),
    "limit twice": (request(b"GET /images?limit=1&limit=9999"), 422),
    "limit in other digits": (request(b"GET /images?limit=%D9%A3"), 422),
    "deep filter": (request(b"GET /images?filter=" + b"%7B%22a%22%3A" * 2000), 422),
    "many ranges": (request(f"GET /images/{PICTURE}/thumbnail".encode(), b"Range: bytes=" + b"0-0," * 3000), 404),
    # JSON.
    "NaN": (search(b'{"query": "red", "min_score": NaN}'), 422),
    "infinite": (search(b'{"query": "red", "filter": {"tags": {"a": {"gte": -Infinity}}}}'), 422),
    "larger than any float": (search(b'{"query": "red", "min_score": 1e400}'), 422),
    "number of 10 000 digits": (search(b'{"query": "red", "filter": {"tags": {"a": ' + b"9" * 10_000 + b"}}}"), 400),
    "number beyond 64 bits": (search(b'{"query": "red", "filter": {"tags": {"a": -9223372036854775809}}}'), 422),
    "deep object": (search(b'{"query": "red", "filter": ' + b'{"tags":' * 20_000), TOO_DEEP),
    "deep whole object": (search(b'{"query": "red", "filter": ' + b'{"tags":' * 20_000 + b"1" + b"}" * 20_001),
                          TOO_DEEP),
    "two documents": (search(QUERY + QUERY), 422),
    "UTF-16": (search('{"query": "red"}'.encode("utf-16")), 200),
    # Forms.
    "part of two names": (upload((NAMED + b"\r\n" + MANIFEST, PNG)), 422),
    "part without a name": (upload((b"X: y", PNG)), 422),
    "part of 5000 headers": (upload((b"\r\n".join([b"X: y"] * 5000 + [NAMED]), PNG)), 422),
    "coded part": (upload((NAMED + b"\r\nContent-Transfer-Encoding: base64", b"iVBORw0KGgo=")), 422),
    "20 000 parts": (upload(*[(b'Content-Disposition: form-data; name="x"', b"")] * 20_000), 422),
    "two manifests": (upload((NAMED, PNG), (MANIFEST, b"{}"), (MANIFEST, b"{}")), 422),
    "deep manifest": (upload((NAMED, PNG), (MANIFEST, b'{"a.png": ' + b"[" * 100_000)), 422),
    "program in a drawing": (upload((NAMED, b"<svg xmlns='http://www.w3.org/2000/svg'><script/></svg>")), 422),
    "program for a printer": (upload((NAMED, b"%!PS-Adobe-3.0\n(/etc/passwd) (r) file")), 422),
    "two pictures to search with": (
        upload((NAMED.replace(b"images", b"image"), PNG), (NAMED.replace(b"images", b"image"), PNG),
               key=READ, path=b"/search/image"), 413),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_it_is_answered_rightly_or_refused_in_words(port: int, case: str) -> None:
    sent, status = CASES[case]
    answer = answers(port, sent)
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 %d " % status), answer[:1000]
    if status >= 400:
        assert b"content-type: application/problem+json" in head.lower()
        problem = json.loads(body)
        assert problem["status"] == status
        assert 10 < len(problem["detail"]) <= 2000
    assert b"root:" not in answer
    assert answers(port, request(b"GET /images")).startswith(b"HTTP/1.1 200 ")


def test_a_request_of_two_lengths_leaves_nothing_on_the_connection(port: int) -> None:
    """What follows such a request may be what somebody smuggled behind a proxy: it is no request of its own."""
    smuggled = request(f"DELETE /images/{PICTURE}".encode(), key=WRITE)
    both = (b"Content-Length: 5", b"Transfer-Encoding: chunked")
    found = b""
    with socket.create_connection(("127.0.0.1", port), 60) as connection:
        connection.sendall(request(b"POST /search/text", JSON, *both, body=b"0\r\n\r\n") + smuggled)
        while part := connection.recv(65_536):
            found += part
    assert found.count(b"HTTP/1.1 ") == 1
    assert found.startswith(b"HTTP/1.1 400 ")
    assert answers(port, request(f"GET /images/{PICTURE}/info".encode())).startswith(b"HTTP/1.1 200 ")
