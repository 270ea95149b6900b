"""An OpenAPI document as one HTML page without scripts: every route with its fields, examples and errors."""

import json
import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
nav { columns: 2; margin-bottom: 2rem; }
nav div { break-inside: avoid; margin-bottom: .7rem; }
nav a { display: block; }
section { border-top: 1px solid var(--line); padding: 1rem 0; }
h4 { margin: 1rem 0 .3rem; }
code, pre { font: .875em/1.45 ui-monospace, monospace; }
pre { background: var(--soft); padding: .7rem; overflow-x: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { border-bottom: 1px solid var(--line); padding: .3rem .6rem .3rem 0; text-align: left; vertical-align: top; }
summary { cursor: pointer; }
@media (max-width: 40rem) { nav { columns: 1; } }
"""
DEPTH = 4  # of nested objects whose fields are listed


def docs_page(document: Mapping[str, Any]) -> str:
    """The page; all references of the document must be internal."""
    groups: dict[str, tuple[str, str]] = {}  # tag -> links and sections
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"<code>{method.upper()} {escape(path)}</code>"
            tag = escape(" ".join(operation.get("tags", ())).capitalize())
            links, sections = groups.get(tag, ("", ""))
            links += f'<a href="#{escape(operation["operationId"])}">{name}</a>'
            groups[tag] = links, sections + _section(document, name, operation)
    nav = "".join(f"<div><b>{tag}</b>{links}</div>" for tag, (links, _) in sorted(groups.items()))
    routes = "".join(f"<h2>{tag}</h2>{sections}" for tag, (_, sections) in sorted(groups.items()))
    title = escape(f"{document['info']['title']} {document['info']['version']}")
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}: HTTP interface</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f'<link rel="stylesheet" href="/docs/style.css"></head><body><h1>{title}</h1>'
        f"<p>{escape(document['info'].get('summary', ''))} For programs: "
        f'<a href="/openapi.json">openapi.json</a>.</p><nav>{nav}</nav>{_errors(document)}{routes}</body></html>'
    )


def _errors(document: Mapping[str, Any]) -> str:
    """The table of all errors, which routes then only name."""
    problems = [example["value"] for example in document.get("components", {}).get("examples", {}).values()]
    rows = [
        (f"<code>{problem['status']} {escape(problem['type'].rpartition(':')[2])}</code>", _marked(problem["detail"]))
        for problem in sorted(problems, key=lambda problem: (problem["status"], problem["type"]))
    ]
    return f'<h2 id="errors">Errors</h2>{_table(rows)}'


def _section(document: Mapping[str, Any], name: str, operation: Mapping[str, Any]) -> str:
    parts = [
        f'<section id="{escape(operation["operationId"])}"><h3>{name}</h3>',
        f"<p><strong>{_marked(operation['summary'])}.</strong> {_marked(operation.get('description', ''))}</p>",
    ]
    if operation.get("parameters"):
        parts.append("<h4>Parameters</h4>" + _table(_parameter_rows(document, operation["parameters"])))
    for kind, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<h4>Request body, {escape(kind)}</h4>{_content(document, content)}")
    for status, answer in operation["responses"].items():
        if status < "400":
            parts.append(f"<h4>{status} {_marked(answer.get('description', ''))}</h4>")
            parts += [_content(document, content) for content in answer.get("content", {}).values()]
    faults = [
        f"<code>{status} {escape(kind)}</code>"
        for status, answer in operation["responses"].items()
        for content in _resolved(document, answer).get("content", {}).values()
        if status >= "400"
        for kind in content.get("examples", ())
    ]
    return "".join(parts) + f'<h4><a href="#errors">Errors</a></h4><p>{", ".join(sorted(faults))}</p></section>'


def _parameter_rows(document: Mapping[str, Any], parameters: list[Any]) -> list[tuple[str, str]]:
    return [
        (
            f"<code>{escape(field['name'])}</code>",
            _marked(f"{_kind(document, field['schema'])}, in the {field['in']}. {field.get('description', '')}"),
        )
        for field in parameters
    ]


def _content(document: Mapping[str, Any], content: Mapping[str, Any]) -> str:
    """A body: its fields, and an example that unfolds."""
    schema = content.get("schema", {})
    rows = [
        (f"<code>{escape(name)}</code>", _marked(f"{kind}. {description}"))
        for name, kind, description in _fields(document, schema, "", DEPTH)
    ]
    parts = [_table(rows) if rows else f"<p>{escape(_kind(document, schema))}</p>"]
    examples = [content["example"]] if "example" in content else _resolved(document, schema).get("examples", [])
    for example in examples:
        text = escape(json.dumps(example, indent=2, ensure_ascii=False))
        parts.append(f"<details><summary>Example</summary><pre>{text}</pre></details>")
    return "".join(parts)


def _fields(
    document: Mapping[str, Any], schema: Mapping[str, Any], prefix: str, depth: int
) -> Iterator[tuple[str, str, str]]:
    """Name, kind and description of every field; nested fields are named by their path."""
    for name, field in _object(document, schema).get("properties", {}).items():
        yield prefix + name, _kind(document, field), field.get("description", "")
        items = _resolved(document, field).get("items")
        if depth:
            inner = f"{prefix}{name}[]." if items else f"{prefix}{name}."
            yield from _fields(document, items or field, inner, depth - 1)


def _resolved(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    node: Any = schema
    while "$ref" in node:
        target: Any = document
        for step in node["$ref"].removeprefix("#/").split("/"):
            target = target[step]
        node = target
    return node  # type: ignore[no-any-return]


def _object(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema itself or its first alternative that has fields."""
    target = _resolved(document, schema)
    for choice in [target, *target.get("anyOf", [])]:
        resolved = _resolved(document, choice)
        if "properties" in resolved:
            return resolved
    return {}


def _kind(document: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A schema in words, such as "integer or null, 1 to 100, default 10"."""
    target = _resolved(document, schema)
    if "anyOf" in target:
        words = " or ".join(_kind(document, choice) for choice in target["anyOf"])
    elif "enum" in target or "const" in target:
        words = " or ".join(json.dumps(value) for value in target.get("enum", [target.get("const")]))
    elif target.get("type") == "array":
        words = f"list of {_kind(document, target['items'])}" if "items" in target else "list"
    else:
        words = str(target.get("format") or target.get("type") or "any value")
    if "minimum" in target or "maximum" in target:
        words += f", {target.get('minimum', '')} to {target.get('maximum', '')}"
    if schema.get("default") is not None:
        words += f", default {json.dumps(schema['default'])}"
    return words


def _marked(text: str) -> str:
    """A description as HTML, with its paragraphs and code."""
    return re.sub("`([^`]+)`", r"<code>\1</code>", escape(text.strip())).replace("\n\n", "<br>")


def _table(rows: list[tuple[str, str]]) -> str:
    """Rows of HTML as a table."""
    return "<table>" + "".join(f"<tr><td>{first}</td><td>{second}</td></tr>" for first, second in rows) + "</table>"
