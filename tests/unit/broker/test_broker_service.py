"""Proves what a broker's parts make of the settings: with port 0 its id names the port that was bound (servers tell the
queries of two brokers apart by it), and its work runs on as many threads as the settings say."""

from __future__ import annotations

import asyncio
import threading

import anyio.to_thread
import httpx

from pinotpy.broker.routing.server_statistics import AdaptiveRules
from pinotpy.broker.service import BrokerParts
from pinotpy.cluster.memory import MemoryStore, MemoryTree
from pinotpy.cluster.paths import ClusterPaths
from pinotpy.cluster.spectator import Spectator
from pinotpy.config.adaptive_selection import AdaptiveType
from pinotpy.config.settings import BrokerSettings, load_settings
from pinotpy.service.assembly import equip


def test_the_settings_say_how_servers_are_measured_and_it_is_shown() -> None:
    given = {
        "PINOTPY_BROKER_ADAPTIVE_TYPE": "hybrid",
        "PINOTPY_BROKER_ADAPTIVE_ALPHA": "0.5",
        "PINOTPY_BROKER_ADAPTIVE_DECAY_MS": "2000",
        "PINOTPY_BROKER_ADAPTIVE_QUEUE_FLOOR": "1",
    }
    expected = AdaptiveRules(AdaptiveType.HYBRID, True, 0.5, 2_000_000_000, 1.0, 3.0, 1.0)
    for environment, rules in (
        ({}, AdaptiveRules()),
        ({"PINOTPY_BROKER_ADAPTIVE_STATISTICS": "true"}, AdaptiveRules(measures=True)),
        (given, expected),
    ):
        settings = load_settings(BrokerSettings, overrides={"port": 0}, environment=environment)
        parts = BrokerParts(settings, equip("broker", settings))
        parts._spectator = Spectator(MemoryStore(MemoryTree()), ClusterPaths("c"))
        parts._start_http()
        assert parts._http is not None
        try:
            shown = httpx.get(f"{parts._http.url}/debug/serverRoutingStats", trust_env=False).json()
            assert shown == {"type": rules.kind.value, "statsCollection": rules.measures, "servers": {}}
            assert httpx.get(f"{parts._http.url}/metrics", trust_env=False).status_code == 200
            assert parts._server_statistics().rules == rules
        finally:
            parts._stop_http(10.0)


def test_with_port_0_the_brokers_id_has_the_bound_port_and_its_threads_are_bounded() -> None:
    settings = BrokerSettings(port=0, threads=3)
    parts = BrokerParts(settings, equip("broker", settings))
    parts._spectator = Spectator(MemoryStore(MemoryTree()), ClusterPaths("c"))
    parts._start_http()
    assert parts._http is not None
    try:
        answer = httpx.post(f"{parts._http.url}/query/sql", json={"sql": "SELECT 1"}, trust_env=False).json()
        assert answer["brokerId"] == f"Broker_127.0.0.1_{parts._http.port}"
        assert answer["requestId"].startswith(answer["brokerId"])

        shown = httpx.get(f"{parts._http.url}/metrics", trust_env=False).text
        assert "pinot_broker_routedTables 0.0" in shown and "pinot_broker_unhealthyServers 0.0" in shown

        together = threading.Barrier(3, timeout=60.0)

        def work() -> str:
            together.wait()
            return threading.current_thread().name

        async def all_at_once() -> tuple[set[str], float]:
            names = await asyncio.gather(*(asyncio.to_thread(work) for _ in range(12)))
            return set(names), anyio.to_thread.current_default_thread_limiter().total_tokens

        names, num_tokens = parts._http.submit(all_at_once()).result(60.0)
        assert (len(names), num_tokens) == (3, 3), names
    finally:
        parts._stop_http(10.0)
