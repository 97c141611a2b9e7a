"""Pages of docs/ that are made from the code:  python -m tools.docs apis

What each API does and what it leaves out is said where it is done, in the docstring of its handler.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from actors.serving.kafka.handlers import SERVED, handler_of
from protocol.apis import Api

DIRECTORY = Path(__file__).parent.parent / "docs"
_LEFT_OUT = "Left out:"


def apis() -> str:
    """Every API that is served, with its versions."""
    lines = [
        "# The APIs of Kafka's protocol that are served",
        "",
        "Made by `python -m tools.docs apis` from the docstrings of `actors/serving/kafka/handlers/`; edit those.",
        "Versions are the ones that brokers advertise, Kafka 4.3's. What is not in this table is not advertised, and a",
        "request of that kind closes the connection.",
        "",
        "| key | API | versions | what it does | what it leaves out |",
        "|---|---|---|---|---|",
    ]
    for api in sorted(SERVED, key=lambda api: api.key):
        does, leaves_out = _told(api)
        lines.append(f"| {api.key} | {api.name} | {_versions(api)} | {does} | {leaves_out} |")
    return "\n".join(lines) + "\n"


def _versions(api: Api) -> str:
    first, last = api.advertised.first, api.advertised.last
    text = str(first) if first == last else f"{first}–{last}"
    refused = [version for version in range(first, last + 1) if version not in api.versions]
    return f"{text}, of which {refused[0]}–{refused[-1]} are refused" if refused else text


def _told(api: Api) -> tuple[str, str]:
    """What the handler's docstring says: what it does, and what it leaves out."""
    module = import_module(handler_of(api).__module__)
    text = " ".join((module.__doc__ or "").split()).replace("|", "\\|")
    does, _, leaves_out = text.removeprefix(f"{api.name}: ").partition(_LEFT_OUT)
    return _sentence(does), _sentence(leaves_out) or "–"


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:]


PAGES: dict[str, Callable[[], str]] = {"apis": apis}


def main(arguments: list[str]) -> int:
    if not arguments or any(name not in PAGES for name in arguments):
        print(f"usage: python -m tools.docs {' | '.join(PAGES)}", file=sys.stderr)
        return 2
    DIRECTORY.mkdir(exist_ok=True)
    for name in arguments:
        path = DIRECTORY / f"{name}.md"
        path.write_text(PAGES[name](), encoding="utf-8")
        print(f"{path} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
