"""Writes the settings as documents: `make docs` runs it, a test compares what it writes with what is checked in.

python docs/settings_table.py settings.md | .env.example
"""

import sys
from typing import get_args

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings

from service.settings import PREFIX, ClientSettings, ClusterSettings, Settings

TABLE_HEAD = """# Settings

Every setting is an environment variable and, with the same name in lower case and dashes, a flag of `regard serve`
(`REGARD_DATA_DIR` is `--data-dir`). A flag wins over a variable. Written by `make docs` from
`service/settings.py`.

A variable that is almost the name of a setting is refused, with the right name. Variables that Kubernetes and Docker
set for a service called `regard` (`REGARD_SERVICE_HOST`, `REGARD_PORT_8000_TCP`, `REGARD_PORT=tcp://10.0.0.1:8000`)
are ignored. Any other variable that begins with `REGARD_` and is no setting is ignored with a warning.

| variable | default | what it does |
|---|---|---|
"""
EXAMPLE_HEAD = """# Copy to .env: `docker compose up` gives what stands there to api and worker.
# Each line shows a default. Left out is what docker-compose.yml decides itself; docs/settings.md lists everything.
# Written by `make docs`.

# How many processors (a whole number) api and worker may use each, and threads of each of their processes.
# Read by docker-compose.yml.
# CPUS=2

# The folder of photographs that api and worker see, read-only, as /photos. Read by docker-compose.yml.
# PHOTOS=./photos

# The address and port of this machine that the api answers at. Read by docker-compose.yml.
# PUBLISH=127.0.0.1:8000
"""
CLIENT_HEAD = """
Commands that speak to a server ([the command line](cli.md)) read two more variables. The key is no flag, because other
users of a machine see command lines.

| variable | default | what it does |
|---|---|---|
"""
CLUSTER_HEAD = """
A collection on several machines ([cluster.md](cluster.md)) has a few more; `regard cluster up` reads them.

| variable | default | what it does |
|---|---|---|
"""
SET_BY_COMPOSE = {"data_dir", "role", "host", "port", "insecure", "threads", "redis_url"}


def default(field: FieldInfo) -> str:
    """The default as it would be written in a variable; empty for none."""
    value = field.default
    if value is None or value == ():
        return ""
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)


def choices(field: FieldInfo) -> str:
    """The values a setting is limited to, where it is."""
    values = [str(value) for value in get_args(field.annotation) if isinstance(value, str)]
    return f" One of {', '.join(f'`{value}`' for value in values)}." if values else ""


def table() -> str:
    """docs/settings.md."""
    return TABLE_HEAD + rows(Settings) + CLIENT_HEAD + rows(ClientSettings) + CLUSTER_HEAD + rows(ClusterSettings)


def rows(settings: type[BaseSettings]) -> str:
    """A row of the table for each setting."""
    rows = []
    for name, field in settings.model_fields.items():
        shown = f"`{default(field)}`" if default(field) else "none"
        rows.append(f"| `{PREFIX}{name.upper()}` | {shown} | {field.description}{choices(field)} |")
    return "\n".join(rows) + "\n"


def example() -> str:
    """.env.example."""
    lines = [
        f"\n# {field.description}\n# {PREFIX}{name.upper()}={default(field)}\n"
        for name, field in Settings.model_fields.items()
        if name not in SET_BY_COMPOSE
    ]
    return EXAMPLE_HEAD + "".join(lines)


if __name__ == "__main__":
    sys.stdout.write({"settings.md": table, ".env.example": example}[sys.argv[1]]())
