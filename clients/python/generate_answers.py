"""Writes the types of the client's answers from the OpenAPI document; a test compares them with the committed file.

python clients/python/generate_answers.py > clients/python/regard_client/answers.py
"""

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

OPENAPI = Path(__file__).parents[2] / "docs" / "openapi.json"
LONGEST_LINE = 120
# The answer to a picture holds captions or pictures, as the request says; each form gets its own type.
NARROWED = {
    "CaptionsAnswer": ("captions", "CaptionHit", "Captions for a picture, best first."),
    "SimilarAnswer": ("images", "PictureHit", "Pictures like a picture, best first."),
}
# Schemas that only browsers send, and the search's body, whose fields are arguments here.
LEFT_OUT = {"SessionAnswer", "SessionRequest", "Permission", "TextSearchRequest"}
HEAD = '''"""Types of a server's answers and requests. Written by generate_answers.py from the OpenAPI document."""

from typing import Literal, NotRequired, TypedDict
'''

Schema = Mapping[str, Any]


def written(document: Schema) -> str:
    """The module's source: a TypedDict for each object schema, after those it refers to."""
    schemas = {name: schema for name, schema in document["components"]["schemas"].items() if name not in LEFT_OUT}
    image_answer = schemas.pop("ImageAnswer")
    for name, (target, hit, description) in NARROWED.items():
        fields = {"target": {"const": target}, "results": {"type": "array", "items": {"$ref": f"/{hit}"}}}
        properties = {**image_answer["properties"], **fields}
        schemas[name] = {**image_answer, "description": description, "properties": properties}
    done: dict[str, str] = {}
    for name in sorted(schemas):
        _add(name, schemas, done)
    return HEAD + "".join(f"\n\n{source}" for source in done.values())


def _add(name: str, schemas: Mapping[str, Schema], done: dict[str, str]) -> None:
    for needed in sorted(set(_references(schemas[name]))):
        if needed not in done:
            _add(needed, schemas, done)
    done.setdefault(name, _typed_dict(name, schemas[name]))


def _references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if "$ref" in node:
            yield _name_of(node["$ref"])
        for value in node.values():
            yield from _references(value)
    elif isinstance(node, list):
        for value in node:
            yield from _references(value)


def _name_of(reference: str) -> str:
    return reference.rpartition("/")[2]


def _typed_dict(name: str, schema: Schema) -> str:
    required = schema.get("required", ())
    lines = [f"class {name}(TypedDict):"]
    docstring = '"""' + schema["description"].strip().replace("\n", " ") + '"""'
    lines += textwrap.wrap(docstring, LONGEST_LINE, initial_indent="    ", subsequent_indent="    ")
    lines.append("")
    for field, field_schema in schema["properties"].items():
        kind = _type_of(field_schema)
        lines.append(f"    {field}: {kind if field in required else f'NotRequired[{kind}]'}")
    return "\n".join(lines) + "\n"


def _type_of(schema: Schema) -> str:
    if "$ref" in schema:
        return _name_of(schema["$ref"])
    if "const" in schema or "enum" in schema:
        values = schema.get("enum", [schema.get("const")])
        return f"Literal[{', '.join(json.dumps(value) for value in values)}]"
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(_type_of(option) for option in schema["anyOf"]))
    match schema.get("type"):
        case "array":  # of fixed length too: JSON is read into lists
            items = schema["items"] if "items" in schema else {"anyOf": schema["prefixItems"]}
            return f"list[{_type_of(items)}]"
        case "object":
            return f"dict[str, {_type_of(schema.get('additionalProperties', {}))}]"
        case str(name) if name in PLAIN:
            return PLAIN[name]
    raise ValueError(f"the OpenAPI document has a form that has no type here: {schema}")


PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


if __name__ == "__main__":
    sys.stdout.write(written(json.loads(OPENAPI.read_text(encoding="utf-8"))))
