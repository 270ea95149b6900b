"""Every Python example of the client's documents, run as it stands there against a real server."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.library import two_coloured
from tests.support.project_files import ROOT

DOCUMENTS = ["docs/clients.md", "clients/python/README.md"]
EXAMPLE = re.compile(r"^```python\n(.*?)^```", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("document", DOCUMENTS)
def test_examples_run_as_they_stand(
    document: str, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / document).read_text(encoding="utf-8")
    examples = EXAMPLE.findall(text)
    assert len(examples) == text.count("```python") > 0
    for name, colours in {"dog.jpg": ("red", "green"), "beach.jpg": ("blue", "yellow")}.items():
        for path in (tmp_path / name, tmp_path / "photos" / name):
            path.parent.mkdir(exist_ok=True)
            two_coloured(*colours, 64, 32).save(path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGARD_URL", url)
    names: dict[str, Any] = {"__name__": "__main__"}
    for example in examples:  # one after the other: the later ones use what the earlier ones stored
        exec(compile(example, document, "exec"), names)
    assert "dog.jpg" in capsys.readouterr().out
