"""Generates the pages of docs/reference/ that are made from the code:

    python -m tools.docs apis configuration commands

The docstring of an API's handler says what it does and what it leaves out; the table of settings,
log/settings/table.py, says what each setting does; commands explain themselves (tools/cli/reference.py).
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

from actors.serving.kafka.handlers import SERVED, handler_of
from log.settings.kinds import INT_MAX, LONG_MAX
from log.settings.table import BROKER_SETTINGS, TOPIC_SETTINGS, Area, TopicSetting
from log.topic_configs import spelled
from protocol.apis import Api
from tools.cli import reference

DIRECTORY = Path(__file__).parent.parent / "docs" / "reference"
_LEFT_OUT = "Left out:"


def apis() -> str:
    """The page of all APIs that are served, with their versions."""
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
    """The two parts of the handler's docstring: what it does, and what it leaves out."""
    module = import_module(handler_of(api).__module__)
    text = " ".join((module.__doc__ or "").split()).replace("|", "\\|")
    does, _, leaves_out = text.removeprefix(f"{api.name}: ").partition(_LEFT_OUT)
    return _sentence(does), _sentence(leaves_out) or "–"


def _sentence(text: str) -> str:
    text = text.strip()
    return text[:1].upper() + text[1:]


FILE_KEYS: dict[str, tuple[tuple[str, str, str, str], ...]] = {
    "[cluster]": (
        ("name", "barnabas", "text", "The name of the cluster. Processes of another cluster are refused."),
        ("host", "127.0.0.1", "an IP address or a host name", "Where the brokers listen."),
        ("data_dir", "data", "a directory", "Where the brokers keep their directories, relative to the file."),
        ("log_format", "text", "text, json", "What log lines on stderr are: text, or a JSON object each."),
    ),
    "[[broker]], once for each broker": (
        ("id", "required", "0 to 2³¹−1", "The number of the broker."),
        ("port", "required", "0 to 65535", "Where it listens; 0 finds a free port and keeps it."),
        ("data_dir", "the cluster's, and the id", "a directory", "Where it keeps its logs."),
        ("advertised", "host and port", "host:port", "The address that clients get."),
    ),
    "[[topic]], once for each topic that a new cluster gets": (
        ("name", "required", "1 to 249 of a-z, A-Z, 0-9, dot, underscore, hyphen", "The name of the topic."),
        ("partitions", "`num.partitions`", "1 to 10,000", "The number of its partitions."),
        ("replication_factor", "`default.replication.factor`", "1 to 64", "The replicas of each partition."),
    ),
}
"""The keys of cluster.toml outside of [config]."""


def configuration() -> str:
    """The page of all keys of cluster.toml and all configs of topics."""
    lines = [
        "# Configuration",
        "",
        "Made by `python -m tools.docs configuration` from the table of settings (`log/settings/table.py`); edit that.",
        "`python -m actors.cluster --check cluster.toml` checks a file without starting anything. Every accepted key",
        "takes effect; an unknown key or value is refused with a line that names it.",
    ]
    for table, keys in FILE_KEYS.items():
        lines += ["", f"## `{table.partition(',')[0]}`{table[len(table.partition(',')[0]) :]}", ""]
        lines += ["| key | default | values | what it says |", "|---|---|---|---|"]
        lines += [f"| `{key}` | {default} | {values} | {text} |" for key, default, values, text in keys]
    lines += [
        "",
        "## `[config]`: settings of all brokers",
        "",
        "By Kafka's names, in quotes since they have dots. They hold for every broker and are read at the start; none",
        "can be changed while brokers run. A setting that Apache Kafka does not have is marked with \\*.",
    ]
    for area in Area:
        lines += ["", f"### {area.value[:1].upper()}{area.value[1:]}", ""]
        lines += ["| setting | default | values | what it does |", "|---|---|---|---|"]
        for row in BROKER_SETTINGS.values():
            if row.area is area:
                default = f"the topic's: `{_of_topic(row.name)}`" if row.default is None else _value(row.default)
                mark = "" if row.is_kafkas else " \\*"
                lines.append(f"| `{row.name}`{mark} | {default} | {row.kind.range} | {row.documentation} |")
    lines += [
        "",
        "## Configs of topics",
        "",
        "They are given when a topic is created (`topics create --config NAME=VALUE`) or changed while it is in use",
        "(`configs alter topic`, AlterConfigs). A topic without a config of its own has the brokers' setting in the",
        "last column, if the file gives one (the first that it gives counts), and else the default.",
        "",
        "| config | default | values | what it does | setting of brokers |",
        "|---|---|---|---|---|",
    ]
    for topic in TOPIC_SETTINGS.values():
        names = ", ".join(f"`{synonym.name}`" for synonym in topic.synonyms)
        lines.append(
            f"| `{topic.name}` | {_value(topic.default)} | {topic.kind.range} | {topic.documentation} | {names} |"
        )
    return "\n".join(lines) + "\n"


def _of_topic(broker_setting: str) -> str:
    """The topic config for which this setting of brokers is the default."""
    return next(row.name for row in TOPIC_SETTINGS.values() if broker_setting in _names(row))


def _names(row: TopicSetting) -> list[str]:
    return [synonym.name for synonym in row.synonyms]


def _value(value: object) -> str:
    if value == LONG_MAX:
        return "2⁶³−1"
    if value == INT_MAX:
        return "2³¹−1"
    return f"{value:,}" if type(value) is int else spelled(value)


PAGES: dict[str, Callable[[], str]] = {"apis": apis, "configuration": configuration, "commands": reference.page}


def main(arguments: list[str]) -> int:
    if not arguments or any(name not in PAGES for name in arguments):
        print(f"usage: python -m tools.docs {' | '.join(PAGES)}", file=sys.stderr)
        return 2
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    for name in arguments:
        path = DIRECTORY / f"{name}.md"
        path.write_text(PAGES[name](), encoding="utf-8")
        print(f"{path} is written")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
