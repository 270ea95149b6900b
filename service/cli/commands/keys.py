"""`regard keys`: API keys of a data directory, created, listed and revoked."""

import time
from datetime import UTC, datetime
from typing import Annotated

import typer

from service.auth.api_keys import ApiKey, create_key
from service.auth.key_file import change_keys, read_keys
from service.auth.permissions import Permission
from service.cli.options import AsJson
from service.cli.settings_options import with_settings
from service.cli.terminal.output import print_json, print_note, print_table
from service.cli.terminal.picture_cells import time_cell
from service.errors import UserError
from service.settings import Settings
from service.storage.data_dir import DataDir
from service.units import SECONDS_A_DAY

MOST_DAYS = 36_500

keys = typer.Typer(
    name="keys",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Create, list and revoke API keys. A running service notices at once.",
)
with_data_dir = with_settings(*(name for name in Settings.model_fields if name != "data_dir"))


@keys.command()
@with_data_dir
def create(
    settings: Settings,
    name: Annotated[str, typer.Argument(help="Name of the key in lists and audit lines: who or what uses it.")],
    permission: Annotated[
        Permission, typer.Option("--permission", help="read: search and look; write: also add and delete; admin: all.")
    ],
    days: Annotated[
        float | None,
        typer.Option("--days", max=MOST_DAYS, help="Days after which it expires; never if not given."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it, this once. Only a digest of it is stored."""
    if days is not None and not days > 0:  # also refuses NaN, which a range would accept
        raise typer.BadParameter("give a number of days above 0", param_hint="--days")
    now = time.time()
    key, stored = create_key(name, permission, now, None if days is None else now + days * SECONDS_A_DAY)

    def add(keys: list[ApiKey]) -> list[ApiKey]:
        if any(one.name == name and one.unusable(now) is None for one in keys):
            raise UserError(f"there is already a key called {name!r}; revoke it first, or choose another name")
        return [*keys, stored]

    change_keys(DataDir(settings.data_dir).keys, add)
    if as_json:
        print_json({**description(stored, now), "key": key})
        return
    print(key)
    data = DataDir(settings.data_dir)
    if not (data.catalog.exists() or data.cluster_plan.exists()):
        print_note(f"{settings.data_dir.resolve()} holds no pictures yet: the key is for a service on that folder")
    print_note(f"{stored.name} may {permission}. The key is shown only now: keep it where secrets are kept.")


@keys.command("list")
@with_data_dir
def list_keys(settings: Settings, as_json: AsJson = False) -> None:
    """List all keys, including revoked and expired ones."""
    now = time.time()
    found = [description(key, now) for key in read_keys(DataDir(settings.data_dir).keys)]
    if as_json:
        print_json({"keys": found})
        return
    if not found:
        where = settings.data_dir if settings.data_dir.exists() else f"{settings.data_dir}, which does not exist"
        print_note(f"there are no API keys in {where}")
        return
    texts, times = ("key_id", "name", "permission", "state"), ("created_at", "expires_at", "revoked_at")
    rows = [[one[column] or "" for column in texts] + [time_cell(one[column]) for column in times] for one in found]
    print_table(*texts, *times, rows=rows)


@keys.command()
@with_data_dir
def revoke(
    settings: Settings,
    key: Annotated[str, typer.Argument(help="The id or the name of the key.")],
    as_json: AsJson = False,
) -> None:
    """Revoke a key for good: further requests with it are refused."""
    now = time.time()
    key_called(key, read_keys(DataDir(settings.data_dir).keys), now)  # fails before a wrong folder is changed
    revoked: list[ApiKey] = []

    def change(keys: list[ApiKey]) -> list[ApiKey]:
        revoked.append(key_called(key, keys, now).revoke(now))
        return [revoked[0] if one.key_id == revoked[0].key_id else one for one in keys]

    change_keys(DataDir(settings.data_dir).keys, change)
    if as_json:
        print_json(description(revoked[0], now))
        return
    print(f"{revoked[0].key_id} {revoked[0].name} is revoked")


def key_called(text: str, keys: list[ApiKey], now: float) -> ApiKey:
    """The key with this id or name; of several with the name, a usable one. Raises UserError if there is none."""
    named = [one for one in keys if one.name == text]
    usable = [one for one in named if one.unusable(now) is None]
    for found in ([one for one in keys if one.key_id == text], usable, named):
        if found:
            return found[-1]
    raise UserError(f"there is no key {text!r}; `regard keys list` shows all")


def description(key: ApiKey, now: float) -> dict[str, str | None]:
    """The properties of a key, with times in RFC 3339."""
    return {
        "key_id": key.key_id,
        "name": key.name,
        "permission": key.permission.value,
        "state": {None: "active", "was revoked": "revoked", "has expired": "expired"}[key.unusable(now)],
        "created_at": _time(key.created_at),
        "expires_at": _time(key.expires_at),
        "revoked_at": _time(key.revoked_at),
    }


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
