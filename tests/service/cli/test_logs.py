"""The log: text or JSON lines, and no key in either, wherever it comes from."""

import json
import logging
import os
import subprocess
import sys

import pytest

from service.auth.api_keys import create_key, session_token
from service.auth.permissions import Permission
from service.cli.logs import JsonFormatter, TextFormatter
from tests.support.project_files import ROOT

KEY, STORED = create_key("one", Permission.READ, 0.0)


def record(message: str, *arguments: object, error: Exception | None = None, **extra: object) -> logging.LogRecord:
    info = None if error is None else (type(error), error, error.__traceback__)
    made = logging.LogRecord("service.some", logging.WARNING, "file.py", 1, message, arguments, info)
    vars(made).update(extra)
    return made


def test_a_json_line_is_one_object_with_what_happened() -> None:
    try:
        raise ValueError("two\nlines")
    except ValueError as error:
        line = JsonFormatter("api").format(record('said "%s"\n', "é", error=error, audit={"key": "k"}))
    assert "\n" not in line
    found = json.loads(line)
    assert (found["level"], found["logger"], found["role"], found["message"]) == (
        "warning",
        "service.some",
        "api",
        'said "é"\n',
    )
    assert found["audit"] == {"key": "k"}
    assert "two\nlines" in found["exception"]
    assert found["time"].endswith("+00:00")


@pytest.mark.parametrize("formatter", [JsonFormatter("api"), TextFormatter("api")])
def test_no_key_gets_into_a_line(formatter: logging.Formatter) -> None:
    try:
        raise RuntimeError(f"header Bearer {KEY}")
    except RuntimeError as error:
        line = formatter.format(record("key %s cookie %s", KEY, session_token(KEY), error=error, audit={"x": KEY}))
    for token in (KEY, session_token(KEY)):
        assert token.split("_", 2)[2] not in line
    assert STORED.key_id in line


PROGRAM = """
import logging
from service.cli.logs import write_log
from service.settings import Settings
write_log(Settings(log_format="json", log_level="error"))
logging.getLogger("service.x").warning("not at this level")
logging.getLogger("service.x").error("at this level")
import service.api.access.audit
logging.getLogger("regard.audit").info("audit at every level")
"""


def test_settings_choose_format_and_level_and_audit_lines_are_always_written() -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REGARD_")}
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True, cwd=ROOT, env=environment
    )
    assert [json.loads(line)["message"] for line in ran.stderr.splitlines()] == [
        "at this level",
        "audit at every level",
    ]


@pytest.mark.parametrize(("level", "own"), [("debug", 10), ("info", 20), ("error", 40)])
def test_libraries_say_nothing_below_a_warning(level: str, own: int) -> None:
    program = f"""
import logging
from service.cli.logs import write_log
from service.settings import Settings
write_log(Settings(log_level={level!r}))
print([logging.getLogger(name).getEffectiveLevel() for name in ("service.x", "index.x", "torch.x", "httpx")])
"""
    ran = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert json.loads(ran.stdout) == [own, own, max(own, 30), max(own, 30)]
