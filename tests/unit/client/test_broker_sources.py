"""Proves where connections find their brokers: properties, host lists, controllers, and ZooKeeper's view, which is
followed. ZooKeeper is its in-memory twin here; the real one is in tests/cluster/test_client_live.py.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_daemon import Daemon

from pinotpy.client import Connection, brokers, connect
from pinotpy.client import connection as connection_module
from pinotpy.client.addresses import daemon_url, daemon_urls
from pinotpy.client.brokers import ControllerBrokers, FixedBrokers, table_of
from pinotpy.client.http_calls import Access, HttpCalls
from pinotpy.client.properties import brokers_of_properties, read_properties
from pinotpy.client.zookeeper_brokers import ZooKeeperBrokers, split_address
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import BROKER_RESOURCE, ClusterPaths
from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import ClusterStore
from pinotpy.errors import ConnectionLostError, InvalidConfigError, NotFoundError, ServerUnreachableError, UserError

SELECTION = {"selectionResults": {"columns": ["a"], "results": [["1"]]}, "exceptions": []}
PATHS = ClusterPaths("TestCluster")
VIEW = PATHS.external_view(BROKER_RESOURCE)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection_module, "ROUND_WAIT_S", 0.005)


def soon() -> float:
    return time.monotonic() + 60.0


# --- addresses -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "url"),
    [
        ("broker-1:8099", "http://broker-1:8099"),
        (" 10.0.0.1:8099/ ", "http://10.0.0.1:8099"),
        ("[::1]:8099", "http://[::1]:8099"),
        ("https://broker:1/", "https://broker:1"),
        ("HTTP://proxy/pinot/brokers", "HTTP://proxy/pinot/brokers"),
    ],
)
def test_addresses_become_urls(address: str, url: str) -> None:
    assert daemon_url(address) == url


@pytest.mark.parametrize(
    "address",
    [
        "",
        "broker",
        "broker:",
        "broker:0",
        "broker:65536",
        "ftp://broker:1",
        "http://",
        "a b:1",
        "broker:1/x",
        "::1:8099",
    ],
)
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(UserError, match="no URL of a daemon"):
        daemon_url(address)


def test_credentials_in_an_address_are_refused_and_not_shown() -> None:
    with pytest.raises(UserError, match="no URL") as caught:
        daemon_url("http://alice:secret@broker:8099")
    assert "secret" not in str(caught.value)


def test_lists_are_cut_at_commas_and_lose_doubles() -> None:
    assert daemon_urls("a:1, b:2,,a:1", "https") == ["https://a:1", "https://b:2"]
    assert daemon_urls(("a:1,b:2", "c:3")) == ["http://a:1", "http://b:2", "http://c:3"]
    with pytest.raises(UserError, match="empty"):
        daemon_urls(" , ")


@pytest.mark.parametrize(
    ("query", "table"),
    [
        ("select a from flights where b = 1", "flights"),
        ('SELECT a FROM "flights_OFFLINE"', "flights"),
        ("SELECT a FROM `flights_REALTIME` LIMIT 1", "flights"),
        ("SELECT 1", ""),
    ],
)
def test_the_table_of_a_query_is_seen(query: str, table: str) -> None:
    assert table_of(query) == table


# --- properties and host lists -------------------------------------------------------------------------------------


def test_properties_name_brokers_for_all_and_for_some_tables() -> None:
    found = brokers_of_properties(
        {"brokerList": "a:1, b:2", "brokerList.flights": "c:3", "other": "x", "brokerList2": "no"}, "http"
    )
    assert found == {"": ["http://a:1", "http://b:2"], "flights": ["http://c:3"]}
    fixed = FixedBrokers(found)
    assert (fixed.urls("flights", soon()), fixed.urls("other", soon()), fixed.urls("", soon())) == (
        found["flights"],
        found[""],
        found[""],
    )
    assert brokers_of_properties({"brokerList": "a:1", "scheme": "HTTPS"}, "http") == {"": ["https://a:1"]}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"brokerlist": "a:1"},
        {"brokerList.": "a:1"},
        {"brokerList": ""},
        {"brokerList": "a"},
        {"brokerList": "a:1", "scheme": "x"},
    ],
)
def test_properties_without_brokers_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(UserError):
        brokers_of_properties(properties, "http")


def test_a_table_without_brokers_is_named() -> None:
    with (
        Connection.from_properties({"brokerList.flights": "127.0.0.1:1"}) as connection,
        pytest.raises(UserError, match="named for table 'other'"),
    ):
        connection.execute("select a from other")


def test_a_properties_file_is_found_here_and_along_the_resource_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, resources = tmp_path / "here", tmp_path / "resources"
    here.mkdir()
    resources.mkdir()
    (resources / "demo.properties").write_text("# demo\nbrokerList = a:1,\\\n   b:2\n")
    monkeypatch.chdir(here)
    with pytest.raises(NotFoundError, match="neither here nor along"):
        read_properties("demo.properties")
    monkeypatch.syspath_prepend(str(resources))
    assert read_properties("demo.properties") == {"brokerList": "a:1,b:2"}
    (here / "demo.properties").write_text("brokerList=c:3\n")
    assert read_properties(Path("demo.properties")) == {"brokerList": "c:3"}
    assert read_properties(resources / "demo.properties") == {"brokerList": "a:1,b:2"}
    with pytest.raises(NotFoundError):
        read_properties(resources / "nowhere.properties")


def test_a_broken_properties_file_says_where(tmp_path: Path) -> None:
    (tmp_path / "a.properties").write_text("brokerList=a:1\nbrokerList=b:2\n")
    with pytest.raises(InvalidConfigError, match="line 2"):
        read_properties(tmp_path / "a.properties")
    (tmp_path / "b.properties").write_bytes(b"brokerList=\xff")
    with pytest.raises(UserError, match="UTF-8"):
        read_properties(tmp_path / "b.properties")
    (tmp_path / "c.properties").write_bytes(b"#" * (1 << 20) + b"\n")
    with pytest.raises(UserError, match="more than 1048576 bytes"):
        read_properties(tmp_path / "c.properties")


def test_queries_go_to_the_brokers_of_their_table() -> None:
    everybody, special = Daemon(), Daemon()
    for each in (everybody, special):
        each.replies = {"POST /query/sql": (200, SELECTION)}
    properties = {"brokerList": everybody.url, "brokerList.flights": f"127.0.0.1:{special.port}"}
    try:
        with Connection.from_properties(properties) as connection:
            connection.execute("select a from flights_OFFLINE")
            connection.execute("select a from rides")
    finally:
        everybody.stop()
        special.stop()
    assert [
        ["flights" in json.loads(request["body"])["sql"] for request in each.asked] for each in (everybody, special)
    ] == [[False], [True]]


def test_a_host_list_is_shared_out_by_chance_and_the_dead_are_left() -> None:
    dead, first, second = Daemon(), Daemon(), Daemon()
    dead.stop()
    for each in (first, second):
        each.replies = {"POST /query/sql": (200, SELECTION)}
    try:
        with Connection.from_host_list(*(f"127.0.0.1:{each.port}" for each in (dead, first, second))) as connection:
            for _ in range(40):
                assert len(connection.execute("select a from t")) == 1
    finally:
        first.stop()
        second.stop()
    # 40 fair throws leave one side out once in 10^12.
    assert len(first.asked) + len(second.asked) == 40 and first.asked and second.asked


def test_a_busy_broker_is_left_for_another() -> None:
    busy, free = Daemon(), Daemon()
    busy.replies = {"POST /query/sql": (503, {"code": 503, "error": "shutting down"})}
    free.replies = {"POST /query/sql": (200, SELECTION)}
    try:
        with Connection.from_host_list(busy.url, free.url) as connection:
            for _ in range(20):
                assert len(connection.execute("select a from t")) == 1
    finally:
        busy.stop()
        free.stop()
    assert busy.asked


# --- controller ----------------------------------------------------------------------------------------------------


def listed(*ports: int) -> dict[str, Any]:
    entries = [{"host": "127.0.0.1", "port": port} for port in ports]
    return {"tenants": {"DefaultTenant": entries}, "tables": {}}


def test_known_brokers_answer_while_the_controller_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(brokers, "BROKERS_FRESH_S", 0.0)
    controller, broker = Daemon(), Daemon()
    broker.replies = {"POST /query/sql": (200, SELECTION)}
    controller.replies = {"GET /v2/brokers": (200, listed(broker.port))}
    try:
        with connect(controller=controller.url) as connection:
            assert len(connection.execute("select a from t")) == 1
            controller.stop()
            assert len(connection.execute("select a from t")) == 1
    finally:
        broker.stop()


def test_a_controller_that_hangs_costs_a_query_little(
    monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., float]
) -> None:
    monkeypatch.setattr(brokers, "BROKERS_FRESH_S", 0.0)
    monkeypatch.setattr(brokers, "RELIST_TIMEOUT_S", 0.3)
    monkeypatch.setattr(brokers, "BROKERS_RETRY_S", 600.0)
    controller, broker = Daemon(), Daemon()
    release = threading.Event()

    def hang_after_the_first(request: dict[str, Any]) -> tuple[int, Any]:
        assert len(controller.asked) == 1 or release.wait(120)
        return 200, listed(broker.port)

    broker.replies = {"POST /query/sql": (200, SELECTION)}
    controller.replies = {"GET /v2/brokers": hang_after_the_first}
    try:
        with connect(controller=controller.url, timeout_s=60) as connection:
            connection.execute("select a from t")
            for _ in range(3):
                assert len(connection.execute("select a from t")) == 1
        # After one attempt in vain it is left alone for a while.
        eventually(lambda: len(controller.asked) > 1, what="the attempt in vain has come")
        assert len(controller.asked) == 2 and not release.is_set()
    finally:
        release.set()
        controller.stop()
        broker.stop()


def test_many_threads_ask_the_controller_once() -> None:
    controller = Daemon()
    release = threading.Event()

    def slow(request: dict[str, Any]) -> tuple[int, Any]:
        assert release.wait(60)
        return 200, listed(8099)

    controller.replies = {"GET /v2/brokers": slow}
    calls = HttpCalls(Access())
    source = ControllerBrokers(controller.url, calls, may_be_broker=True)
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(source.urls("t", soon()))) for _ in range(8)]
    try:
        for thread in threads:
            thread.start()
        release.set()
        for thread in threads:
            thread.join(60)
    finally:
        controller.stop()
        calls.close()
    assert found == [["http://127.0.0.1:8099"]] * 8 and len(controller.asked) == 1


# --- ZooKeeper -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("address", "parts"),
    [
        ("zk:2181/PinotCluster", ("zk:2181", "PinotCluster")),
        ("a:1,b:2/pinot/prod/PinotCluster/", ("a:1,b:2/pinot/prod", "PinotCluster")),
        ("[::1]:2181/C", ("[::1]:2181", "C")),
    ],
)
def test_an_address_in_zookeeper_ends_with_the_cluster(address: str, parts: tuple[str, str]) -> None:
    assert split_address(address) == parts


@pytest.mark.parametrize("address", ["zk:2181", "zk:2181/", "/PinotCluster", "", "http://zk:2181/C"])
def test_an_address_without_a_cluster_is_refused(address: str) -> None:
    with pytest.raises(UserError, match=r"expected host:port.*cluster"):
        Connection.from_zookeeper(address)


class Ensemble:
    """A tree with the brokers' view in it, and the session of the source under test."""

    def __init__(self) -> None:
        self.tree = MemoryTree()
        self.writer = MemoryStore(self.tree)
        self.writer.create(PATHS.external_views, make_parents=True)
        self.session: MemoryStore | None = None
        self.opened: list[str] = []
        self.reads = 0
        self.source = ZooKeeperBrokers("zk:2181/TestCluster", open_store=self.open)

    def open(self, address: str, timeout_s: float) -> ClusterStore:
        ensemble = self

        class Counted(MemoryStore):
            def get_many(self, paths: Any, watch: Any = None) -> Any:
                ensemble.reads += 1
                return super().get_many(paths, watch)

        self.opened.append(address)
        self.session = Counted(self.tree)
        return self.session

    def write(self, view: dict[str, dict[str, str]]) -> None:
        data = ZNRecord(BROKER_RESOURCE, map_fields=view).to_bytes()
        if self.writer.exists(VIEW) is None:
            self.writer.create(VIEW, data)
        else:
            self.writer.set(VIEW, data)

    def urls(self, table: str = "flights") -> list[str]:
        return list(self.source.urls(table, soon()))


@pytest.fixture
def ensemble() -> Iterator[Ensemble]:
    made = Ensemble()
    yield made
    made.source.close()
    made.writer.close()


def test_brokers_are_those_online_for_the_table(ensemble: Ensemble) -> None:
    ensemble.write(
        {
            "flights_OFFLINE": {"Broker_a_1": "ONLINE", "Broker_b_2": "OFFLINE", "Broker_::1_3": "ONLINE"},
            "flights_REALTIME": {"Broker_c_4": "ONLINE"},
            "rides_OFFLINE": {"Broker_d_5": "ONLINE", "nonsense": "ONLINE"},
        }
    )
    assert ensemble.opened == []
    assert ensemble.urls() == ["http://[::1]:3", "http://a:1", "http://c:4"]
    assert ensemble.urls("rides") == ["http://d:5"]
    assert ensemble.urls("unknown") == ensemble.urls("") == ["http://[::1]:3", "http://a:1", "http://c:4", "http://d:5"]
    assert ensemble.opened == ["zk:2181"] and ensemble.reads == 1


def test_a_change_is_followed_and_nothing_is_read_without_one(
    ensemble: Ensemble, eventually: Callable[..., float]
) -> None:
    ensemble.write({"flights_OFFLINE": {"Broker_a_1": "ONLINE"}})
    for _ in range(5):
        assert ensemble.urls() == ["http://a:1"]
    assert ensemble.reads == 1
    for port in (2, 3):
        ensemble.write({"flights_OFFLINE": {f"Broker_b_{port}": "ONLINE"}})
        eventually(lambda port=port: ensemble.urls() == [f"http://b:{port}"])  # type: ignore[misc]
    assert ensemble.reads == 3


def test_known_brokers_answer_while_zookeeper_is_away(ensemble: Ensemble, eventually: Callable[..., float]) -> None:
    ensemble.write({"flights_OFFLINE": {"Broker_a_1": "ONLINE"}})
    assert ensemble.urls() == ["http://a:1"]
    assert ensemble.session is not None
    ensemble.session.suspend()
    ensemble.write({"flights_OFFLINE": {"Broker_b_2": "ONLINE"}})
    assert ensemble.urls() == ["http://a:1"]
    assert ensemble.source.urls("flights", soon(), refresh=True) == ["http://a:1"]
    ensemble.session.resume()
    eventually(lambda: ensemble.urls() == ["http://b:2"])


def test_a_cluster_that_is_not_there_is_named(ensemble: Ensemble) -> None:
    with pytest.raises(
        NotFoundError, match=r"/TestCluster/EXTERNALVIEW/brokerResource.*is 'TestCluster' the cluster's name"
    ):
        ensemble.urls()
    ensemble.write({"flights_OFFLINE": {"Broker_a_1": "ONLINE"}})
    assert ensemble.urls() == ["http://a:1"]


def test_an_ensemble_that_does_not_answer_is_given_up_in_time() -> None:
    def nobody(address: str, timeout_s: float) -> ClusterStore:
        raise ConnectionLostError(f"no ZooKeeper answers at '{address}' within {timeout_s} s")

    source = ZooKeeperBrokers("zk:2181/TestCluster", open_store=nobody)
    with pytest.raises(ConnectionLostError, match="zk:2181"):
        source.urls("t", soon())
    source.close()
    with pytest.raises(UserError, match="closed"):
        source.urls("t", soon())


def test_nobody_online_is_said(ensemble: Ensemble) -> None:
    ensemble.write({"flights_OFFLINE": {"Broker_a_1": "OFFLINE"}})
    connection = Connection(
        ensemble.source, Access(), HttpCalls(Access()), timeout_s=60, fail_on_exceptions=True, answer_bytes_max=1 << 20,
        background=connection_module.BackgroundQueries(1, 1),
    )  # fmt: skip
    with connection, pytest.raises(ServerUnreachableError, match="no broker is known"):
        connection.execute("select a from flights")
