"""Proves where a process's settings come from, that the later source wins, and that faults name key and source."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pinotpy.config.properties import parse_properties
from pinotpy.config.settings import BrokerSettings, ControllerSettings, ServerSettings
from pinotpy.config.settings_loading import Settings, load_settings, setting
from pinotpy.errors import InvalidConfigError


def write(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_default_file_environment_command_line_each_beats_the_one_before(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        "broker.properties",
        "pinot.broker.timeoutMs=1\npinot.broker.client.queryPort=1\npinot.zk.server=file:1\n",
    )
    environment = {"PINOTPY_BROKER_TIMEOUT_MS": "2", "PINOTPY_BROKER_PORT": "2"}
    read = load_settings(BrokerSettings, file, {"timeout_ms": 3, "cluster_name": None}, environment)
    assert (read.timeout_ms, read.port, read.zk_address, read.cluster_name) == (3, 2, "file:1", "PinotCluster")
    assert [read.sources[name] for name in ("timeout_ms", "port", "zk_address", "cluster_name")] == [
        "command line",
        "environment",
        "config file",
        "default",
    ]


def test_a_role_s_variable_beats_the_general_one_and_other_roles_do_not_read_it() -> None:
    environment = {
        "PINOTPY_ZK_ADDRESS": "all:1",
        "PINOTPY_SERVER_ZK_ADDRESS": "mine:1",
        "PINOTPY_BROKER_TIMEOUT_MS": "7",
    }
    assert load_settings(ServerSettings, None, {}, environment).zk_address == "mine:1"
    assert load_settings(BrokerSettings, None, {}, environment).zk_address == "all:1"
    # broker_timeout_ms of the controller has only its own variable
    assert load_settings(ControllerSettings, None, {}, environment).broker_timeout_ms == 60_000


def test_json_files_may_nest_the_dotted_keys(tmp_path: Path) -> None:
    nested = write(
        tmp_path,
        "a.json",
        json.dumps({"pinot": {"server": {"query": {"executor": {"timeout": "20"}}, "instance.dataDir": "/data"}}}),
    )
    read = load_settings(ServerSettings, nested, {}, {})
    assert (read.timeout_ms, read.data_dir) == (20, Path("/data"))


def test_sizes_may_have_units(tmp_path: Path) -> None:
    file = write(
        tmp_path, "a.properties", "pinot.server.query.memory.maxBytes = 1.5G\npinotpy.http.request.maxBytes=4096\n"
    )
    read = load_settings(ServerSettings, file, {}, {})
    assert (read.query_memory_max_bytes, read.request_bytes_max) == (3 * 2**29, 4096)


def test_every_fault_names_its_key_and_where_it_was_set(tmp_path: Path) -> None:
    file = write(tmp_path, "a.properties", "pinot.broker.client.queryPort=abc\nenable.case.insensitive=maybe\n")
    with pytest.raises(InvalidConfigError) as caught:
        load_settings(BrokerSettings, file, {"queue_max": -1}, {"PINOTPY_BROKER_TIMEOUT_MS": "0"})
    assert {(fault.path, fault.allowed) for fault in caught.value.faults} == {
        (f"pinot.broker.client.queryPort ({file})", "a whole number"),
        (f"enable.case.insensitive ({file})", "true or false"),
        ("PINOTPY_BROKER_TIMEOUT_MS", "a number, at least 1"),
        ("--queue-max", "a number, at least 0"),
    }


def test_keys_that_nobody_reads_are_told(tmp_path: Path) -> None:
    file = write(tmp_path, "a.properties", "pinot.broker.magic=1\n")
    read = load_settings(
        BrokerSettings, file, {}, {"PINOTPY_BROKER_TIMEOT_MS": "1", "PINOTPY_SERVER_X": "1", "HOME": "/"}
    )
    assert read.unrecognized == ("pinot.broker.magic", "PINOTPY_BROKER_TIMEOT_MS")
    with pytest.raises(InvalidConfigError, match="no such setting"):
        load_settings(BrokerSettings, None, {"magic": 1}, {})


def test_two_names_of_one_setting_with_other_values_are_refused(tmp_path: Path) -> None:
    file = write(tmp_path, "a.properties", "pinot.zk.server=a:1\ncontroller.zk.str=b:1\n")
    with pytest.raises(InvalidConfigError, match=r"controller\.zk\.str"):
        load_settings(ControllerSettings, file, {}, {})


def test_an_open_address_needs_users_or_a_word(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="--insecure"):
        load_settings(BrokerSettings, None, {"host": "0.0.0.0"}, {})
    assert load_settings(BrokerSettings, None, {"host": "0.0.0.0", "insecure": True}, {}).insecure
    assert (
        load_settings(
            BrokerSettings, None, {"host": "0.0.0.0", "auth_users_file": tmp_path / "users"}, {}
        ).auth_users_file
        == tmp_path / "users"
    )


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(InvalidConfigError, match="keyFile"):
        load_settings(BrokerSettings, None, {"tls_cert_file": "cert.pem"}, {})


def test_secrets_are_masked_unless_asked() -> None:
    class Secretive(Settings):
        role = "test"
        password: str = setting("", "a.password", about="A secret.", secret=True, min_length=3)
        name: str = setting("x", "a.name", about="No secret.")

    read = load_settings(Secretive, None, {"password": "hunter2"}, {})
    assert read.effective() == {"a.password": "*****", "a.name": "x"}
    assert read.effective(masked=False)["a.password"] == "hunter2"
    with pytest.raises(InvalidConfigError) as caught:
        load_settings(Secretive, None, {"password": "no"}, {})
    assert "'no'" not in str(caught.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match="cannot be read"):
        load_settings(BrokerSettings, tmp_path / "missing", {}, {})
    with pytest.raises(InvalidConfigError, match="not JSON"):
        load_settings(BrokerSettings, write(tmp_path, "a.json", "{"), {}, {})
    with pytest.raises(InvalidConfigError, match="object of dotted keys"):
        load_settings(BrokerSettings, write(tmp_path, "b.json", "[]"), {}, {})


def test_java_properties() -> None:
    text = (
        "# comment\n! another\n\na=1\n b : two words \nc.d\tx\\ty\nlong = one, \\\n    "
        "two\nk\\=ey=v\\u0041\nempty=\npath=C:\\\\x\n"
    )
    assert parse_properties(text, "x") == {
        "a": "1", "b": "two words ", "c.d": "x\ty", "long": "one, two", "k=ey": "vA", "empty": "", "path": "C:\\x",
    }  # fmt: skip
    with pytest.raises(InvalidConfigError) as caught:
        parse_properties("a=1\nb=2\na=3\n= 4\n", "x")
    assert [fault.path for fault in caught.value.faults] == ["line 3", "line 4"]


def test_keys_below_a_prefix_are_taken_together_and_shown_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "c.properties").write_text(
        "pinot.controller.storage.factory.class.s3=org.apache.pinot.plugin.filesystem.S3PinotFS\n"
        "pinot.controller.storage.factory.s3.region=eu-central-1\n"
        "pinot.controller.storage.factory.s3.secretKey=hunter2\n"
        "pinot.server.storage.factory.s3.region=us-east-1\n"
        "pinotpy.segment.fetcher.allowedUris=s3://a/, 10.0.0.0/8\n"
        "controller.data.dir=s3://bucket/pinot\n"
    )
    read = load_settings(ControllerSettings, tmp_path / "c.properties", environment={})
    assert read.storage_factory == {
        "class.s3": "org.apache.pinot.plugin.filesystem.S3PinotFS",
        "s3.region": "eu-central-1",
        "s3.secretKey": "hunter2",
    }
    assert read.data_dir == "s3://bucket/pinot" and read.segment_uris_allowed == ("s3://a/", "10.0.0.0/8")
    shown = read.effective()
    assert shown["pinot.controller.storage.factory.s3.region"] == "eu-central-1"
    assert shown["pinot.controller.storage.factory.s3.secretKey"] == "*****" and "hunter2" not in str(shown)
    assert read.unrecognized == ("pinot.server.storage.factory.s3.region",)
    server = load_settings(
        ServerSettings,
        tmp_path / "c.properties",
        environment={"PINOTPY_SERVER_SEGMENT_FETCHER": '{"s3.retry.count": 7}'},
    )
    assert server.storage_factory == {"s3.region": "us-east-1"} and server.segment_fetcher == {"s3.retry.count": "7"}


def test_one_key_under_two_names_must_say_the_same(tmp_path: Path) -> None:
    (tmp_path / "c.json").write_text(
        '{"pinotpy.storage.factory.s3.region": "a", "pinot.controller.storage.factory.s3.region": "b"}'
    )
    with pytest.raises(InvalidConfigError, match="another value"):
        load_settings(ControllerSettings, tmp_path / "c.json", environment={})
    with pytest.raises(InvalidConfigError) as told:
        load_settings(ControllerSettings, environment={"PINOTPY_CONTROLLER_STORAGE_FACTORY": '["hunter2"]'})
    assert "hunter2" not in str(told.value)
