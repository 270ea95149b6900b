"""Command-line options for all settings, generated from Settings."""

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_args

import typer
from pydantic import ValidationError
from pydantic.fields import FieldInfo

from service.settings import PREFIX, ClusterSettings, Settings
from service.validation_messages import plain_message


def flag_name(name: str) -> str:
    """The command-line flag of a setting."""
    return "--" + name.replace("_", "-")


def with_settings(*left_out: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Turn a function that takes `settings` into a command with a flag for each setting, except those left out."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        names = [name for name in Settings.model_fields if name not in left_out]

        def command(**arguments: Any) -> None:
            values = {name: value for name in names if (value := arguments.pop(name)) is not None}
            function(settings=read_settings(values), **arguments)

        others = [p for p in inspect.signature(function).parameters.values() if p.name != "settings"]
        parameters = [*others, *(_parameter(name, Settings.model_fields[name]) for name in names)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {p.name: p.annotation for p in parameters}
        command.__doc__ = function.__doc__
        command.__name__ = function.__name__
        return command

    return decorate


def _parameter(name: str, field: FieldInfo) -> inspect.Parameter:
    text = f"{field.description} [{PREFIX}{name.upper()}{_default(field)}]"
    if field.annotation is bool:
        switch = typer.Option(f"{flag_name(name)}/--no-{flag_name(name)[2:]}", help=text, show_default=False)
        annotation: Any = Annotated[bool | None, switch]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    choices = [choice for choice in get_args(field.annotation) if isinstance(choice, str)]
    option = typer.Option(
        flag_name(name),
        help=text,
        metavar="|".join(choices) or "VALUE",
        show_default=False,
    )
    annotation = Annotated[str | None, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


def _default(field: FieldInfo) -> str:
    value = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    value = str(value).lower() if isinstance(value, bool) else value
    return "" if value in (None, "") else f"; {value}"


def read_settings(flags: dict[str, Any]) -> Settings:
    """Settings from flags, then the environment, then defaults; typer.BadParameter names an invalid one."""
    try:
        return Settings(**flags)
    except ValidationError as fault:
        raise wrong_setting(fault) from None


def read_cluster_settings(flags: dict[str, Any]) -> ClusterSettings:
    """Settings of a cluster, read as `read_settings` does."""
    try:
        return ClusterSettings(**flags)
    except ValidationError as fault:
        raise wrong_setting(fault) from None


def wrong_setting(fault: ValidationError) -> typer.BadParameter:
    """The error for the first invalid setting."""
    first = fault.errors(include_url=False)[0]
    message = plain_message(first)
    if not first["loc"]:
        return typer.BadParameter(message)
    name = str(first["loc"][0])
    return typer.BadParameter(f"{flag_name(name)} ({PREFIX}{name.upper()}): {message}")
