"""Pages that are made from the code say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.serving.kafka.handlers import SERVED
from tools import docs


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    kept = (docs.DIRECTORY / f"{name}.md").read_text(encoding="utf-8")
    assert kept == docs.PAGES[name](), f"run python -m tools.docs {name}"


def test_every_api_that_is_served_is_told_with_its_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)(?:–(\d+))?[ ,]", docs.apis(), re.MULTILINE)
    told = {(int(key), name, int(first), int(last or first)) for key, name, first, last in rows}
    assert told == {(api.key, api.name, api.advertised.first, api.advertised.last) for api in SERVED}


def test_a_page_is_written_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "DIRECTORY", tmp_path / "docs")
    assert docs.main(["apis"]) == 0
    assert (tmp_path / "docs" / "apis.md").read_text(encoding="utf-8") == docs.apis()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["apis", "nonsense"]])
def test_other_pages_are_not_known(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(arguments) == 2
    assert "usage: python -m tools.docs apis" in capsys.readouterr().err
