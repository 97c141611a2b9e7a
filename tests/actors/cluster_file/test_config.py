"""The cluster file: good ones give what they say, bad ones one exact line for each mistake."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from actors.cluster_file.config import (
    SETTINGS,
    BrokerConfig,
    ClusterConfig,
    ConfigError,
    KafkaConfig,
    TopicConfig,
    load,
)
from log.settings.kinds import InvalidConfig
from log.settings.table import BROKERS_MAX, TOPIC_SETTINGS
from log.settings.unclean import REFUSAL, REMEDY
from log.topic_configs import check, topic_defaults

ONE_BROKER = "[[broker]]\nid = 1\nport = 9092\n"
TWO_BROKERS = ONE_BROKER + "[[broker]]\nid = 2\nport = 9093\n"


def written(directory: Path, content: str | bytes) -> Path:
    path = directory / "cluster.toml"
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def problems_of(path: Path) -> list[str]:
    """The lines, each without the file's name, which must stand first in all of them."""
    with pytest.raises(ConfigError) as caught:
        load(path)
    assert str(caught.value) == "\n".join(caught.value.problems)
    lines = caught.value.problems
    assert all(line.startswith(f"{path}: ") and line.isprintable() for line in lines), lines
    return [line.removeprefix(f"{path}: ") for line in lines]


def test_the_cluster_file_of_the_repository_loads() -> None:
    path = Path(__file__).parents[3] / "cluster.toml"
    root = path.parent.resolve()
    assert load(path) == ClusterConfig(
        name="barnabas",
        host="127.0.0.1",
        data_dir=root / "data",
        config=KafkaConfig(
            num_partitions=3, default_replication_factor=3, min_insync_replicas=2, auto_create_topics_enable=True
        ),
        brokers=tuple(BrokerConfig(i, 9091 + i, root / "data" / str(i)) for i in (1, 2, 3)),
        topics=(TopicConfig("orders", 6, 3),),
        file=path,
        given=frozenset(
            {"num.partitions", "default.replication.factor", "min.insync.replicas", "auto.create.topics.enable"}
        ),
    )


def test_what_the_file_sets_is_known_also_where_it_is_the_default(tmp_path: Path) -> None:
    config = load(written(tmp_path, '[config]\n"num.partitions" = 1\n"log.cleanup.policy" = ""\n' + ONE_BROKER))
    assert config.given_settings == {"num.partitions": "1", "log.cleanup.policy": ""}
    assert load(written(tmp_path, ONE_BROKER)).given_settings == {}


def test_what_is_left_out_has_kafkas_defaults(tmp_path: Path) -> None:
    config = load(written(tmp_path, ONE_BROKER + '[[topic]]\nname = "a"\n'))
    assert (config.name, config.host, config.data_dir) == ("barnabas", "127.0.0.1", tmp_path.resolve() / "data")
    assert config.config == KafkaConfig(
        num_partitions=1, default_replication_factor=1, min_insync_replicas=1, auto_create_topics_enable=True
    )
    assert config.topics == (TopicConfig("a", 1, 1),)


def test_topics_take_what_they_leave_out_from_config(tmp_path: Path) -> None:
    settings = '[config]\n"num.partitions" = 5\n"default.replication.factor" = 2\n'
    topics = '[[topic]]\nname = "a"\n[[topic]]\nname = "b"\npartitions = 7\nreplication_factor = 1\n'
    config = load(written(tmp_path, settings + TWO_BROKERS + topics))
    assert config.topics == (TopicConfig("a", 5, 2), TopicConfig("b", 7, 1))


def test_relative_directories_start_at_the_files_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "etc").mkdir()
    elsewhere = tmp_path / "disk"
    path = written(
        tmp_path / "etc",
        f'[cluster]\ndata_dir = "../var"\n{TWO_BROKERS}data_dir = "own"\n'
        f"[[broker]]\nid = 3\nport = 0\ndata_dir = '{elsewhere}'\n",
    )
    monkeypatch.chdir(tmp_path)
    root = tmp_path.resolve()
    config = load(path.relative_to(tmp_path))
    assert config.data_dir == root / "var"
    assert [broker.data_dir for broker in config.brokers] == [root / "var" / "1", root / "etc" / "own", root / "disk"]
    assert config.file == Path("etc/cluster.toml")
    assert not (tmp_path / "var").exists()


def test_several_brokers_may_ask_for_any_free_port(tmp_path: Path) -> None:
    config = load(written(tmp_path, TWO_BROKERS.replace("9092", "0").replace("9093", "0")))
    assert [broker.port for broker in config.brokers] == [0, 0]


@pytest.mark.parametrize(
    ("advertised", "address"),
    [
        ("localhost:19092", ("localhost", 19092)),
        ("kafka.example:1", ("kafka.example", 1)),
        ("10.0.0.1:65535", ("10.0.0.1", 65535)),
        ("[::1]:9092", ("::1", 9092)),
    ],
)
def test_a_broker_may_be_found_elsewhere_than_it_listens(
    tmp_path: Path, advertised: str, address: tuple[str, int]
) -> None:
    first, second = load(
        written(tmp_path, f'{ONE_BROKER}advertised = "{advertised}"\n[[broker]]\nid=2\nport=1\n')
    ).brokers
    assert (first.port, first.advertised) == (9092, address)
    assert second.advertised is None


@pytest.mark.parametrize("host", ["0.0.0.0", "::1", "::", "localhost", "a-b.example", "kafka_1", "example.com."])
def test_good_hosts(tmp_path: Path, host: str) -> None:
    assert load(written(tmp_path, f'[cluster]\nhost = "{host}"\n{ONE_BROKER}')).host == host


def test_log_lines_are_text_unless_the_file_says_json(tmp_path: Path) -> None:
    assert load(written(tmp_path, ONE_BROKER)).log_format == "text"
    assert load(written(tmp_path, f'[cluster]\nlog_format = "json"\n{ONE_BROKER}')).log_format == "json"


def test_limits_themselves_are_allowed(tmp_path: Path) -> None:
    name = "x" * 249
    brokers = "".join(f"[[broker]]\nid = {i}\nport = {65535 - i}\n" for i in range(BROKERS_MAX - 1))
    text = f"{brokers}[[broker]]\nid = 2147483647\nport = 1\n[[topic]]\nname = '{name}'\npartitions = 10000\n"
    config = load(written(tmp_path, f'[config]\n"max.partitions" = 10000\n{text}'))
    assert len(config.brokers) == BROKERS_MAX
    assert config.brokers[0].id == 0
    assert config.topics == (TopicConfig(name, 10000, 1),)


TOPIC_RULE = 'is not a topic name; use 1 to 249 of a-z, A-Z, 0-9, ".", "_", "-", but not "." or ".."'
ADVERTISED_RULE = 'is not an address; give "host:port", an IPv6 address in brackets, as clients are to dial it'
HOST_RULE = "is not a host; give an IP address or a host name, without a port"
CONFIG_KEYS = ", ".join(f'"{name}"' for name in SETTINGS)


def cluster(line: str) -> str:
    return f"[cluster]\n{line}\n{ONE_BROKER}"


def config(line: str) -> str:
    return f"[config]\n{line}\n{TWO_BROKERS}"


def broker(lines: str) -> str:
    return f"{ONE_BROKER}[[broker]]\n{lines}\n"


def topic(lines: str) -> str:
    return f"{TWO_BROKERS}[[topic]]\n{lines}\n"


BAD = {
    "format of log lines": (
        cluster('log_format = "xml"'),
        'cluster.log_format: "xml" is not a format of log lines; give "text" or "json"',
    ),
    # keys nobody knows
    "unknown table": (ONE_BROKER + "[server]\n", "server: unknown; remove it (known: cluster, config, broker, topic)"),
    "near table": (ONE_BROKER + "[[topics]]\n", "topics: unknown; did you mean topic?"),
    "key before any table": (
        "data_dir = 'x'\n" + ONE_BROKER,
        "data_dir: unknown; remove it (known: cluster, config, broker, topic)",
    ),
    "near cluster key": (cluster('hots = "x"'), "cluster.hots: unknown; did you mean host?"),
    "near config key": (
        config('"num.partition" = 3'),
        'config."num.partition": unknown; did you mean "num.partitions"?',
    ),
    "underscored config key": (
        config("num_partitions = 3"),
        'config.num_partitions: unknown; did you mean "num.partitions"?',
    ),
    "other config key": (
        config('"zookeeper.connect" = "x"'),
        f'config."zookeeper.connect": unknown; remove it (known: {CONFIG_KEYS})',
    ),
    "config key without quotes": (
        config("num.partitions = 3"),
        'config."num.partitions": the name has dots; write it in quotes, as here',
    ),
    "other key without quotes": (
        config("zookeeper.connect = 3"),
        f'config."zookeeper.connect": unknown; remove it (known: {CONFIG_KEYS})',
    ),
    "near broker key": (ONE_BROKER + "Port = 1", "broker[1].Port: unknown; did you mean port?"),
    "other broker key": (
        ONE_BROKER + "rack = 1",
        "broker[1].rack: unknown; remove it (known: id, port, data_dir, advertised)",
    ),
    "near topic key": (topic('name = "a"\npartition = 2'), "topic[1].partition: unknown; did you mean partitions?"),
    "key with a line break": (
        ONE_BROKER + '"a\\nb" = 1',
        'broker[1]."a\\nb": unknown; remove it (known: id, port, data_dir, advertised)',
    ),
    # tables that are none
    "cluster is a value": (
        "cluster = 5\n" + ONE_BROKER,
        "cluster: expected a table, got 5; write [cluster] with its keys below",
    ),
    "config is an array": (
        ONE_BROKER + "[[config]]\n",
        "config: expected a table, got an array; write [config] with its keys below",
    ),
    "broker is one table": (
        "[broker]\nid = 1\nport = 1\n",
        "broker: expected an array of tables, got a table; write [[broker]], in double brackets",
    ),
    "broker is an array of numbers": (
        "broker = [1]\n",
        "broker: expected an array of tables, got an array; write [[broker]], in double brackets",
    ),
    "topic is text": (
        'topic = "orders"\n' + ONE_BROKER,
        'topic: expected an array of tables, got "orders"; write [[topic]], in double brackets',
    ),
    # mistakes in a cluster table
    "name is a number": (cluster("name = 1"), "cluster.name: expected text in quotes, got 1"),
    "empty name": (cluster('name = " "'), 'cluster.name: " " is not a name; give a word to print'),
    "name of two lines": (cluster('name = "a\\nb"'), 'cluster.name: "a\\nb" is not a name; give a word to print'),
    "host is a flag": (cluster("host = true"), "cluster.host: expected text in quotes, got true"),
    "empty host": (cluster('host = ""'), f'cluster.host: "" {HOST_RULE}'),
    "host with port": (cluster('host = "localhost:9092"'), f'cluster.host: "localhost:9092" {HOST_RULE}'),
    "host with spaces": (cluster('host = "my host"'), f'cluster.host: "my host" {HOST_RULE}'),
    "host with a hyphen first": (cluster('host = "-a.b"'), f'cluster.host: "-a.b" {HOST_RULE}'),
    "host in brackets": (cluster('host = "[::1]"'), f'cluster.host: "[::1]" {HOST_RULE}'),
    "host is no address": (cluster('host = "127.0.0.256"'), f'cluster.host: "127.0.0.256" {HOST_RULE}'),
    "host too long": (cluster(f'host = "{"a." * 130}b"'), f'cluster.host: "{"a." * 130}b" {HOST_RULE}'),
    "data_dir is a table": (cluster("data_dir = {}"), "cluster.data_dir: expected text in quotes, got a table"),
    "empty data_dir": (cluster('data_dir = ""'), 'cluster.data_dir: "" is not a path; give a directory'),
    "data_dir with NUL": (
        cluster('data_dir = "a\\u0000"'),
        'cluster.data_dir: "a\\u0000" is not a path; give a directory',
    ),
    # mistakes in a config table
    "setting is text": (
        config('"num.partitions" = "three"'),
        'config."num.partitions": expected a whole number, got "three"',
    ),
    "setting is a flag": (
        config('"num.partitions" = true'),
        'config."num.partitions": expected a whole number, got true',
    ),
    "setting is a float": (
        config('"num.partitions" = 1.0'),
        'config."num.partitions": expected a whole number, got 1.0',
    ),
    "setting is an array": (
        config('"num.partitions" = [1]'),
        'config."num.partitions": expected a whole number, got an array',
    ),
    "setting is a table": (
        config('"num.partitions" = {}'),
        'config."num.partitions": expected a whole number, got a table',
    ),
    "setting is a date": (
        config('"num.partitions" = 2024-01-02'),
        'config."num.partitions": expected a whole number, got 2024-01-02',
    ),
    "setting too small": (
        config('"num.partitions" = 0'),
        'config."num.partitions": 0 is out of range; give a whole number from 1 to 10000',
    ),
    "setting too large": (
        config('"num.partitions" = 10001'),
        'config."num.partitions": 10001 is out of range; give a whole number from 1 to 10000',
    ),
    "setting too large to print": (
        config(f'"num.partitions" = 0x{"f" * 5000}'),
        'config."num.partitions": a number of 20000 bits is out of range; give a whole number from 1 to 10000',
    ),
    "flag is a number": (
        config('"auto.create.topics.enable" = 1'),
        'config."auto.create.topics.enable": expected true or false, got 1',
    ),
    "flag is text": (
        config('"auto.create.topics.enable" = "true"'),
        'config."auto.create.topics.enable": expected true or false, got "true"',
    ),
    "default factor above brokers": (
        config('"default.replication.factor" = 3'),
        'config."default.replication.factor": 3 is more than the number of brokers (2); lower it or add brokers',
    ),
    "default factor too small": (
        config('"default.replication.factor" = 0'),
        'config."default.replication.factor": 0 is out of range; give a whole number from 1 to 64',
    ),
    # mistakes in a broker table
    "empty file": ("", "broker: there is none; add a [[broker]] with an id and a port"),
    "no brokers": ("broker = []\n", "broker: there is none; add a [[broker]] with an id and a port"),
    "too many brokers": (
        "".join(f"[[broker]]\nid = {i}\nport = 0\n" for i in range(65)),
        "broker: 65 brokers are too many; keep at most 64",
    ),
    "no id": (broker("port = 1"), "broker[2].id: missing; give the broker a number of its own"),
    "no port": (broker("id = 2"), "broker[2].port: missing; give the port to listen on, or 0 for a free one"),
    "id is text": (broker('id = "2"\nport = 1'), 'broker[2].id: expected a whole number, got "2"'),
    "id is a flag": (broker("id = false\nport = 1"), "broker[2].id: expected a whole number, got false"),
    "id below zero": (
        broker("id = -1\nport = 1"),
        "broker[2].id: -1 is out of range; give a whole number from 0 to 2147483647",
    ),
    "id too large": (
        broker("id = 2147483648\nport = 1"),
        "broker[2].id: 2147483648 is out of range; give a whole number from 0 to 2147483647",
    ),
    "id taken": (
        broker("id = 1\nport = 1"),
        "broker[2].id: 1 is already taken by broker[1]; give each broker its own id",
    ),
    "port is text": (broker('id = 2\nport = "9092"'), 'broker[2].port: expected a whole number, got "9092"'),
    "port below zero": (
        broker("id = 2\nport = -1"),
        "broker[2].port: -1 is out of range; give a whole number from 0 to 65535",
    ),
    "port too large": (
        broker("id = 2\nport = 65536"),
        "broker[2].port: 65536 is out of range; give a whole number from 0 to 65535",
    ),
    "port taken": (
        broker("id = 2\nport = 9092"),
        "broker[2].port: 9092 is already taken by broker 1; give each broker its own port",
    ),
    "directory of another": (
        broker("id = 2\nport = 1\ndata_dir = 'x/../data//1'"),
        'broker[2].data_dir: "{root}/data/1" is already taken by broker 1; give each broker its own data_dir',
    ),
    "directory is a number": (
        broker("id = 2\nport = 1\ndata_dir = 2"),
        "broker[2].data_dir: expected text in quotes, got 2",
    ),
    "empty directory": (
        broker('id = 2\nport = 1\ndata_dir = ""'),
        'broker[2].data_dir: "" is not a path; give a directory',
    ),
    "advertised is a number": (
        broker("id = 2\nport = 1\nadvertised = 19092"),
        "broker[2].advertised: expected text in quotes, got 19092",
    ),
    **{
        f"advertised {what}": (
            broker(f'id = 2\nport = 1\nadvertised = "{value}"'),
            f'broker[2].advertised: "{value}" {ADVERTISED_RULE}',
        )
        for what, value in {
            "without a port": "localhost",
            "without a host": ":9092",
            "with a bad host": "my host:9092",
            "with a port of 0": "localhost:0",
            "with a port too large": "localhost:65536",
            "with a bare IPv6 address": "::1:9092",
            "with a host name in brackets": "[localhost]:9092",
            "with an unfinished bracket": "[::1:9092",
        }.items()
    },
    "advertised taken": (
        ONE_BROKER + 'advertised = "a:1"\n[[broker]]\nid = 2\nport = 1\nadvertised = "a:1"\n',
        'broker[2].advertised: "a:1" is already taken by broker 1; give each broker its own advertised',
    ),
    # mistakes in a topic table
    "no topic name": (topic("partitions = 1"), "topic[1].name: missing; give the topic a name"),
    "topic name is a number": (topic("name = 7"), "topic[1].name: expected text in quotes, got 7"),
    "empty topic name": (topic('name = ""'), f'topic[1].name: "" {TOPIC_RULE}'),
    "topic name is a dot": (topic('name = "."'), f'topic[1].name: "." {TOPIC_RULE}'),
    "topic name is two dots": (topic('name = ".."'), f'topic[1].name: ".." {TOPIC_RULE}'),
    "topic name with a space": (topic('name = "a b"'), f'topic[1].name: "a b" {TOPIC_RULE}'),
    "topic name with a newline": (topic('name = "a\\n"'), f'topic[1].name: "a\\n" {TOPIC_RULE}'),
    "topic name not ASCII": (topic('name = "größe"'), f'topic[1].name: "größe" {TOPIC_RULE}'),
    "topic name too long": (topic(f'name = "{"a" * 250}"'), f'topic[1].name: "{"a" * 250}" {TOPIC_RULE}'),
    "topic name taken": (
        topic('name = "a"\n[[topic]]\nname = "a"'),
        'topic[2].name: "a" is already taken by topic[1]; give each topic its own name',
    ),
    "topic names collide": (
        topic('name = "a.b_c"\n[[topic]]\nname = "a_b.c"'),
        'topic[2].name: "a_b.c" differs from "a.b_c" only in "." and "_"; rename one of them',
    ),
    "no partitions": (
        topic('name = "a"\npartitions = 0'),
        "topic[1].partitions: 0 is out of range; give a whole number from 1 to 10000",
    ),
    "partitions is a float": (
        topic('name = "a"\npartitions = 2.0'),
        "topic[1].partitions: expected a whole number, got 2.0",
    ),
    "more partitions than the cluster may have": (
        topic('name = "a"\npartitions = 5001'),
        "topic: together they have 5001 partitions; the cluster may have 5000 (max.partitions): raise it",
    ),
    "no replicas": (
        topic('name = "a"\nreplication_factor = 0'),
        "topic[1].replication_factor: 0 is out of range; give a whole number from 1 to 64",
    ),
    "factor above brokers": (
        topic('name = "a"\nreplication_factor = 3'),
        "topic[1].replication_factor: 3 is more than the number of brokers (2); lower it or add brokers",
    ),
    # not TOML
    "no value": ("[cluster]\nname =\n", "not TOML: Invalid value (at line 2, column 7); correct it there"),
    "table twice": (
        "[cluster]\n[cluster]\n",
        "not TOML: Cannot declare ('cluster',) twice (at line 2, column 9); correct it there",
    ),
    "key twice": ("a = 1\na = 2\n", "not TOML: Cannot overwrite a value (at line 2, column 6); correct it there"),
    "not UTF-8": (b"[cluster]\nname = '\xff'\n", "byte 0xff in line 2 is not UTF-8; save it as UTF-8"),
    "nested too deeply": (
        "a = " + "[" * 100_000,
        "nested too deeply; a cluster file needs only tables of plain values",
    ),
}


@pytest.mark.parametrize(("content", "expected"), BAD.values(), ids=BAD.keys())
def test_a_mistake_gives_one_exact_line(tmp_path: Path, content: str | bytes, expected: str) -> None:
    assert problems_of(written(tmp_path, content)) == [expected.replace("{root}", str(tmp_path.resolve()))]


def test_unclean_elections_are_refused(tmp_path: Path) -> None:
    told = problems_of(written(tmp_path, config('"unclean.leader.election.enable" = true')))
    expected = f"true is refused: {REFUSAL}; leave it out, and {REMEDY}"
    assert told == [f'config."unclean.leader.election.enable": {expected}']
    load(written(tmp_path, config('"unclean.leader.election.enable" = false')))


def test_a_number_of_thousands_of_digits_is_told_and_not_raised(tmp_path: Path) -> None:
    (line,) = problems_of(written(tmp_path, ONE_BROKER.replace("9092", "9" * 5000)))
    assert line.startswith("not TOML: ")


def test_a_link_to_the_directory_of_another_broker_is_that_directory(tmp_path: Path) -> None:
    (tmp_path / "mine").symlink_to(tmp_path / "data" / "1")
    path = written(tmp_path, TWO_BROKERS + 'data_dir = "mine"\n')
    expected = f'broker[2].data_dir: "{tmp_path.resolve()}/data/1" is already taken by broker 1'
    assert problems_of(path) == [expected + "; give each broker its own data_dir"]


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    assert problems_of(tmp_path / "none.toml") == ["no such file; give the path of a cluster file"]


def test_a_directory_is_told(tmp_path: Path) -> None:
    assert problems_of(tmp_path) == ["is a directory; give the path of a cluster file in it"]


def test_a_path_under_a_file_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, ONE_BROKER) / "more"
    assert problems_of(path) == ["cannot be read (Not a directory); give the path of a file you may read"]


def test_an_unreadable_file_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a stand-in for the refusal: root may read everything."""

    def refuse(path: Path) -> bytes:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "read_bytes", refuse)
    path = tmp_path / "cluster.toml"
    assert problems_of(path) == ["cannot be read (Permission denied); give the path of a file you may read"]


def test_topics_may_have_fewer_replicas_than_min_insync_replicas(tmp_path: Path) -> None:
    """Acks=all then needs all that they have, as with Kafka."""
    text = '[config]\n"min.insync.replicas" = 3\n' + topic('name = "a"\nreplication_factor = 2')
    assert load(written(tmp_path, text)).config.min_insync_replicas == 3


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        color = "red"
        [cluster]
        host = "a b"
        dat_dir = "x"
        [config]
        "num.partitions" = "three"
        "default.replication.factor" = 4
        "min.insync.replicas" = 5
        zookeeper.connect = "x"
        [[broker]]
        id = 1
        port = 9092
        [[broker]]
        id = 1
        port = 9092
        [[broker]]
        id = "3"
        data_dir = "data/1"
        [[topic]]
        name = "a.b"
        replication_factor = 4
        [[topic]]
        name = "a_b"
        partitions = true
        """,
    )
    first = tmp_path.resolve() / "data" / "1"
    assert problems_of(path) == [
        "color: unknown; remove it (known: cluster, config, broker, topic)",
        "cluster.dat_dir: unknown; did you mean data_dir?",
        'cluster.host: "a b" is not a host; give an IP address or a host name, without a port',
        f'config."zookeeper.connect": unknown; remove it (known: {CONFIG_KEYS})',
        'config."num.partitions": expected a whole number, got "three"',
        'config."default.replication.factor": 4 is more than the number of brokers (3); lower it or add brokers',
        "broker[2].id: 1 is already taken by broker[1]; give each broker its own id",
        "broker[2].port: 9092 is already taken by broker 1; give each broker its own port",
        'broker[3].id: expected a whole number, got "3"',
        "broker[3].port: missing; give the port to listen on, or 0 for a free one",
        f'broker[3].data_dir: "{first}" is already taken by broker 1; give each broker its own data_dir',
        "topic[1].replication_factor: 4 is more than the number of brokers (3); lower it or add brokers",
        "topic[2].partitions: expected a whole number, got true",
        'topic[2].name: "a_b" differs from "a.b" only in "." and "_"; rename one of them',
    ]


def test_configs_and_their_errors_travel_between_processes(tmp_path: Path) -> None:
    config = load(written(tmp_path, TWO_BROKERS))
    assert pickle.loads(pickle.dumps(config)) == config
    error = ConfigError("a: b", "c: d")
    assert pickle.loads(pickle.dumps(error)).problems == error.problems


def test_importing_the_module_is_cheap() -> None:
    code = f"import sys, {load.__module__}; print(*{{'cattrs', 'trio', 'pykka', 'asyncio'}} & sys.modules.keys())"
    root = Path(__file__).parents[3]
    ran = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


# -- defaults of topics ------------------------------------------------------------------------------------------

TOPIC_DEFAULTS = {
    synonym.name: (topic_config, synonym)
    for topic_config, facts in TOPIC_SETTINGS.items()
    for synonym in facts.synonyms
    if topic_config != "min.insync.replicas"
}
GOOD_VALUES = {
    "log.cleanup.policy": '"compact"', "log.cleaner.min.cleanable.ratio": "0.25",
    "log.message.timestamp.type": '"LogAppendTime"', "compression.type": '"zstd"',
    "unclean.leader.election.enable": "false",
}  # fmt: skip


def of_file(directory: Path, setting: str, value: str) -> KafkaConfig:
    return load(written(directory, f'[config]\n"{setting}" = {value}\n{ONE_BROKER}')).config


def test_every_synonym_of_a_topic_config_may_be_in_the_file() -> None:
    assert set(TOPIC_DEFAULTS) <= set(SETTINGS)


@pytest.mark.parametrize("setting", TOPIC_DEFAULTS)
def test_a_setting_of_the_file_becomes_the_default_of_topics(tmp_path: Path, setting: str) -> None:
    topic_config, synonym = TOPIC_DEFAULTS[setting]
    value = GOOD_VALUES.get(setting, "20")
    config = of_file(tmp_path, setting, value)
    text = value.strip('"')
    expected = str(int(text) * synonym.factor) if synonym.factor != 1 else text
    assert topic_defaults(config.spelled()) == {topic_config: expected, "min.insync.replicas": "1"}
    check(topic_config, expected)
    assert topic_defaults(KafkaConfig().spelled()) == {"min.insync.replicas": "1"}


@pytest.mark.parametrize("setting", [name for name in TOPIC_DEFAULTS if name not in GOOD_VALUES])
def test_what_the_file_may_say_of_topics_is_what_topics_may_have(tmp_path: Path, setting: str) -> None:
    topic_config, synonym = TOPIC_DEFAULTS[setting]
    for value in (-2, -1, 0, 1, 11, 12, 13, 14, 2**31 - 1):
        try:
            check(topic_config, synonym.of_topic(str(value)))
        except InvalidConfig:
            (line,) = problems_of(written(tmp_path, f'[config]\n"{setting}" = {value}\n{ONE_BROKER}'))
            assert line.startswith(f'config."{setting}": {value} is out of range; give a whole number from ')
        else:
            assert of_file(tmp_path, setting, str(value)).spelled()[setting] == str(value)


@pytest.mark.parametrize(
    ("setting", "value", "complaint"),
    [
        (
            "log.cleanup.policy",
            '"shred"',
            '"shred" is no cleanup policy; give delete, compact, delete,compact, or "" to keep everything',
        ),
        ("log.cleaner.min.cleanable.ratio", "1.5", "1.5 is out of range; give a number from 0 to 1"),
        ("log.cleaner.min.cleanable.ratio", "nan", "nan is out of range; give a number from 0 to 1"),
        ("log.cleaner.min.cleanable.ratio", '"0.5"', 'expected a number, got "0.5"'),
        ("log.cleaner.min.cleanable.ratio", "true", "expected a number, got true"),
        (
            "log.message.timestamp.type",
            '"Now"',
            '"Now" is none of CreateTime, LogAppendTime; give one of them',
        ),
        ("log.segment.bytes", "1e6", "expected a whole number, got 1000000.0"),
    ],
)
def test_settings_of_topics_that_cannot_be(tmp_path: Path, setting: str, value: str, complaint: str) -> None:
    path = written(tmp_path, f'[config]\n"{setting}" = {value}\n{ONE_BROKER}')
    assert problems_of(path) == [f'config."{setting}": {complaint}']


def test_the_finest_unit_counts_and_less_than_nothing_is_without_limit(tmp_path: Path) -> None:
    hours = KafkaConfig(log_retention_hours=2)
    assert topic_defaults(hours.spelled())["retention.ms"] == "7200000"
    minutes = KafkaConfig(log_retention_hours=2, log_retention_minutes=3)
    assert topic_defaults(minutes.spelled())["retention.ms"] == "180000"
    every = KafkaConfig(log_retention_hours=2, log_retention_minutes=3, log_retention_ms=4)
    assert topic_defaults(every.spelled())["retention.ms"] == "4"
    assert topic_defaults(KafkaConfig(log_retention_hours=-1).spelled())["retention.ms"] == "-1"
