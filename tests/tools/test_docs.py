"""Pages that are made from the code say what the code says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from actors.cluster_file import config
from actors.serving.kafka.handlers import SERVED
from log.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS, Area
from tools import docs

pytestmark = pytest.mark.checkout


@pytest.mark.parametrize("name", docs.PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    kept = (docs.DIRECTORY / f"{name}.md").read_text(encoding="utf-8")
    assert kept == docs.PAGES[name](), f"run python -m tools.docs {name}"


def test_every_api_that_is_served_is_told_with_its_versions() -> None:
    rows = re.findall(r"^\| (\d+) \| (\w+) \| (\d+)(?:–(\d+))?[ ,]", docs.apis(), re.MULTILINE)
    told = {(int(key), name, int(first), int(last or first)) for key, name, first, last in rows}
    assert told == {(api.key, api.name, api.advertised.first, api.advertised.last) for api in SERVED}


def test_every_key_of_the_file_and_every_setting_is_told() -> None:
    keys = [{key for key, *_ in rows} for rows in docs.FILE_KEYS.values()]
    assert keys == [set(config._CLUSTER), set(config._BROKER), set(config._TOPIC)]
    told = re.findall(r"^\| `([a-z.]+)`", docs.configuration(), re.MULTILINE)
    assert [name for name in told if "." in name] == [
        *(name for area in Area for name, row in BROKER_SETTINGS.items() if row.area is area),
        *TOPIC_SETTINGS,
    ]
    assert all(row.documentation for row in BROKER_SETTINGS.values())
    assert all(row.documentation for row in TOPIC_SETTINGS.values())


def test_a_page_is_written_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docs, "DIRECTORY", tmp_path / "docs")
    assert docs.main(["apis"]) == 0
    assert (tmp_path / "docs" / "apis.md").read_text(encoding="utf-8") == docs.apis()


@pytest.mark.parametrize("arguments", [[], ["nonsense"], ["apis", "nonsense"]])
def test_other_pages_are_not_known(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(arguments) == 2
    assert "usage: python -m tools.docs apis" in capsys.readouterr().err
