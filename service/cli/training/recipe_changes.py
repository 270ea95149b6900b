"""Changes of recipes by options of the command line."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from difflib import get_close_matches
from typing import Any, TypeVar

from service.errors import UserError
from service.validation_messages import plain_message

R = TypeVar("R")


def change_recipe(recipe: R, changes: Sequence[str]) -> R:
    """The recipe with fields replaced by name=value, and members of those that are objects by field.member=value.
    UserError for an unknown field, one set to two values, or an invalid value."""
    from pydantic import TypeAdapter, ValidationError

    fields = asdict(recipe)  # type: ignore[call-overload]
    values = _given_values(changes, fields)
    whole = fields | {name: value for name, value in values.items() if name in fields}
    for name, value in values.items():
        field, dot, member = name.partition(".")
        if dot and isinstance(whole[field], dict):  # what is none is refused below
            whole[field] = whole[field] | {member: value}
    try:
        return TypeAdapter(type(recipe)).validate_python(whole)
    except ValidationError as problem:
        wrong = [
            f"{'.'.join(map(str, error['loc']))}: {plain_message(error)}".lstrip(": ") for error in problem.errors()
        ]
        raise UserError(f"--set: {'; '.join(wrong)}") from None


def _given_values(changes: Sequence[str], fields: dict[str, Any]) -> dict[str, Any]:
    """Name -> value of the changes; the name is a field's or, of one that is an object, field.member."""
    values: dict[str, Any] = {}
    for change in changes:
        name, equals, text = change.partition("=")
        field, dot, member = name.partition(".")
        if not equals or field not in fields or (dot and not (member and isinstance(fields[field], dict))):
            raise UserError(
                f"--set {change}: write name=value, with a name of the recipe{advice_on_name(field, fields)}"
            )
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if values.setdefault(name, value) != value:
            raise UserError(f"--set {change}: {name} is set to {values[name]} as well")
    return values


def advice_on_name(name: str, known: Iterable[str]) -> str:
    """Advice on an unknown name: the nearest known one, or else all of them."""
    near = get_close_matches(name, known := list(known), n=1, cutoff=0.7)
    return f": did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
