"""The parts of the OpenAPI document that signatures cannot express: forms, problems, examples."""

from typing import Any

from service.api.access.credentials import SESSION_COOKIE
from service.api.access.permissions import OPEN, needed_permission
from service.api.openapi.examples import EXAMPLES
from service.api.openapi.headers import HEADERS, add_headers
from service.api.problems import PROBLEM_JSON, problem_responses
from service.api.schemas.requests import ImageSearchForm
from service.api.schemas.resources import ProblemAnswer
from service.auth.permissions import Permission
from service.errors import (
    BadRequest,
    CrossSiteRequest,
    Forbidden,
    InvalidKey,
    NotReady,
    Problem,
    RateLimited,
    SlowRequest,
    TooLarge,
    Unauthenticated,
    UnknownHost,
    UnsupportedEncoding,
)

BINARY = {"type": "string", "format": "binary"}


def _form(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"requestBody": {"required": True, "content": {"multipart/form-data": {"schema": schema}}}}


def _image_fields() -> dict[str, Any]:
    fields = {name: _without_null(field) for name, field in ImageSearchForm.model_json_schema()["properties"].items()}
    description = "The filter of POST /search/text, as JSON text."
    return {
        "image": {**BINARY, "description": "The picture to ask with: JPEG, PNG, WebP, HEIC, AVIF, BMP, TIFF or GIF."},
        **fields,
        "filter": {"type": "string", "description": description, "examples": ['{"tags": {"year": {"gte": 2020}}}']},
    }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """The schema of a form's field without null, which forms cannot send: empty fields are left out."""
    kinds = [kind for kind in field.get("anyOf", []) if kind != {"type": "null"}]
    if len(kinds) != 1:
        return field
    return {**kinds[0], **{name: value for name, value in field.items() if name not in ("anyOf", "default")}}


IMAGE_FORM = _form(_image_fields(), [])
INGEST_FORM = _form(
    {
        "images": {
            "type": "array",
            "items": BINARY,
            "minItems": 1,
            "description": "Pictures: JPEG, PNG, WebP, HEIC, AVIF, BMP, TIFF, or GIF, of which the first frame counts.",
        },
        "manifest": {
            "type": "string",
            "description": 'JSON: {"<filename>": {"captions": [..], "tags": {..}, "default_tags": {..},'
            ' "default_captions": [..], "taken_at": "RFC 3339", "default_taken_at": "RFC 3339",'
            ' "decided": ["captions", "tags", "taken_at"]}}',
            "examples": [
                '{"dog.jpg": {"captions": ["a dog on a beach"], "tags": {"year": 2024},'
                ' "taken_at": "2024-07-01T12:00:00Z"}}'
            ],
        },
        "restore": {
            "type": "boolean",
            "default": True,
            "description": "False: deleted pictures stay deleted, and their files are rejected as `deleted`.",
        },
    },
    ["images"],
)


SECURITY_SCHEMES = {
    "key": {"type": "http", "scheme": "bearer", "description": "An API key, as `regard keys create` printed it."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SESSION_COOKIE,
        "description": "What `POST /session` sets; it reads and does nothing else.",
    },
}


def add_security(operation: dict[str, Any], needed: Permission | None) -> None:
    """Document the permission that an operation needs, and its refusals of callers without it."""
    operation["security"] = []
    if needed is OPEN:
        return
    by_key: list[dict[str, Any]] = [{"key": []}, {"session": []}] if needed is Permission.READ else [{"key": []}]
    operation["security"] = [*by_key, {}]  # without security, for a service without keys
    operation["description"] += f"\n\nWhere the service has API keys: needs the permission `{needed}`."
    add_problems(operation, Unauthenticated, InvalidKey, Forbidden, RateLimited)


def add_problems(operation: dict[str, Any], *kinds: type[Problem]) -> None:
    """Add problems to the responses of an operation."""
    answers = operation["responses"]
    for status, added in problem_responses(*kinds).items():
        known = answers.setdefault(str(status), added)
        if known is not added:
            descriptions = [*known["description"].split("; "), *added["description"].split("; ")]
            known["description"] = "; ".join(dict.fromkeys(descriptions))
            known["content"][PROBLEM_JSON]["examples"] |= added["content"][PROBLEM_JSON]["examples"]


def add_refusals(operation: dict[str, Any]) -> None:
    """Document the responses that middleware gives in place of an operation: refusals, and parts of files."""
    answers = operation["responses"]
    add_problems(operation, BadRequest, CrossSiteRequest, SlowRequest, UnknownHost)
    if operation["operationId"] != "alive" and "503" not in answers:
        add_problems(operation, NotReady)
    if "requestBody" in operation:
        add_problems(operation, TooLarge, UnsupportedEncoding)
    if "416" in answers:
        answers["206"] = {"description": "The part of it that `Range` asks for.", "content": answers["200"]["content"]}


def complete_document(document: dict[str, Any]) -> None:
    """Complete FastAPI's document in place: problem documents for its own errors, an example of every answer."""
    schemas = document["components"]["schemas"]
    schemas["ProblemAnswer"] = ProblemAnswer.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas.update(schemas["ProblemAnswer"].pop("$defs", {}))
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document["components"]["securitySchemes"] = SECURITY_SCHEMES
    document["components"]["headers"] = HEADERS
    document["components"] |= {"examples": {}, "responses": {}}
    document["servers"] = [{"url": "/"}]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            add_security(operation, needed_permission(method.upper(), path))
    for operation in [operation for methods in document["paths"].values() for operation in methods.values()]:
        answers = operation["responses"]
        add_refusals(operation)
        add_headers(operation)
        # FastAPI adds a 422 to every route with a parameter; ours are declared where they can occur.
        if PROBLEM_JSON not in answers.get("422", {}).get("content", {}):
            answers.pop("422", None)
        if operation["operationId"] in EXAMPLES:
            # Added here, since FastAPI drops nulls from examples.
            (success,) = [status for status in answers if status.startswith("2")]
            answers[success]["content"]["application/json"]["example"] = EXAMPLES[operation["operationId"]]
        share_problems(answers, document["components"])
    drop_titles([document["paths"], schemas])


def drop_titles(node: Any) -> None:
    """Remove the titles of fields, which FastAPI derives from their names."""
    if isinstance(node, dict):
        if isinstance(node.get("title"), str):
            del node["title"]
        node = [child for name, child in node.items() if name not in ("example", "examples")]
    for child in node if isinstance(node, list) else ():
        drop_titles(child)


def share_problems(answers: dict[str, Any], components: dict[str, Any]) -> None:
    """Move an operation's problems to shared components, since most operations have the same."""
    for status, answer in answers.items():
        content = answer.get("content", {}).get(PROBLEM_JSON)
        if content is None:
            continue
        kinds = list(content["examples"])
        components["examples"] |= {kind: example for kind, example in content["examples"].items() if "value" in example}
        content["examples"] = {kind: {"$ref": f"#/components/examples/{kind}"} for kind in kinds}
        name = ".".join(kinds)
        components["responses"][name] = answer
        answers[status] = {"$ref": f"#/components/responses/{name}"}
