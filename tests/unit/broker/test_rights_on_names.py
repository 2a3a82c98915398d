"""Proves that rights are asked of a table's true name, however a query spells it, in both dialects, and that no refusal
and no hint names a table that the client may not see, or tells whether there is one.
"""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from pinotpy.broker.cluster_catalog import ClusterCatalog
from pinotpy.broker.handler import answer_query
from pinotpy.broker.metrics import BrokerMetrics
from pinotpy.broker.parts import Broker, BrokerLimits, Question, TableRights
from pinotpy.clock import SystemClock
from pinotpy.cluster.spectator import ClusterView
from pinotpy.cluster.views import ExternalView, IdealState, LiveInstance
from pinotpy.errors import ServerUnreachableError
from pinotpy.pql.ast import Dialect
from pinotpy.query.result.partial import PartialResult
from pinotpy.rpc.wire import ServerRequest
from pinotpy.service.metric_catalogue import BROKER_METRICS
from pinotpy.service.metrics import Metrics
from pinotpy.service.rights import Action, Rights, table_resource

DENIED = 180
TABLES = ("ev_open", "EV_secret", "ev_Secret2", "other", "Other_hidden")
SERVER = "Server_a_1"
STATEMENTS = ("SELECT COUNT(*) FROM {}", "SELECT nothing FROM {} LIMIT 3", "EXPLAIN PLAN FOR SELECT id FROM {}")
RIGHTS = Rights(tables=(("ev_*", frozenset({Action.READ})), ("oth*", frozenset({Action.READ}))))


def view() -> ClusterView:
    names = [f"{name}_OFFLINE" for name in TABLES]
    schema = {"dimensionFieldSpecs": [{"name": "id", "dataType": "LONG"}]}
    return ClusterView(
        external_views={name: ExternalView(name, {"s": {SERVER: "ONLINE"}}) for name in names},
        ideal_states={name: IdealState(name, {"s": {SERVER: "ONLINE"}}, {"HELIX_ENABLED": "true"}) for name in names},
        live_instances={SERVER: LiveInstance(SERVER, "1")},
        instance_configs={},
        table_configs={name: {} for name in names},
        schemas={name: {"schemaName": name, **schema} for name in TABLES},
        segments={name: {} for name in names},
    )


class Scene:
    """A broker whose servers cannot be reached: what a query is answered tells whether it got so far."""

    def __init__(self) -> None:
        found = view()
        self.asked: list[str] = []
        self.seen: list[str] = []

        async def send(server: str, request: ServerRequest, timeout_s: float) -> PartialResult:
            raise ServerUnreachableError("nobody is there", server=server)

        self.broker = Broker(
            broker_id="b",
            catalog=ClusterCatalog(lambda: found, SystemClock()),
            send=send,
            limits=BrokerLimits(),
            clock=SystemClock(),
            metrics=BrokerMetrics(Metrics("broker", BROKER_METRICS)),
        )

    def ask(self, text: str, dialect: Dialect) -> dict[str, Any]:
        def allowed(names: list[str], name: str) -> bool:
            names.append(name)
            return RIGHTS.allows(Action.READ, table_resource(name))

        rights = TableRights("bob", lambda name: allowed(self.asked, name), lambda name: allowed(self.seen, name))
        answer: dict[str, Any] = json.loads(asyncio.run(answer_query(self.broker, Question(text, dialect), rights)))
        return answer


@pytest.fixture
def scene() -> Scene:
    return Scene()


def spellings(name: str, dice: random.Random) -> list[str]:
    mixed = "".join(dice.choice([str.lower, str.upper])(letter) for letter in name)
    plain = [name, name.lower(), name.upper(), mixed]
    return [spelt + ending for spelt in plain for ending in ("", "_OFFLINE", "_REALTIME")]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize(
    "statement", ["SELECT COUNT(*) FROM {}", "SELECT nothing FROM {} LIMIT 3", "EXPLAIN PLAN FOR SELECT id FROM {}"]
)
def test_every_spelling_has_the_rights_of_the_true_name(scene: Scene, dialect: Dialect, statement: str) -> None:
    dice = random.Random(7)
    for name in (*TABLES, "ev_none", "none"):
        for spelt in spellings(name, dice):
            for quoted in (spelt, f'"{spelt}"') if dialect is Dialect.SQL else (spelt,):
                answer = scene.ask(statement.format(quoted), dialect)
                raw = spelt.removesuffix("_OFFLINE").removesuffix("_REALTIME")
                is_same = raw in TABLES
                if dialect is Dialect.SQL and not is_same:
                    true_name = next((table for table in sorted(TABLES) if table.lower() == raw.lower()), raw)
                else:
                    true_name = raw
                is_allowed = RIGHTS.allows(Action.READ, table_resource(true_name))
                codes = [each["errorCode"] for each in answer["exceptions"]]
                assert (DENIED in codes) is not is_allowed, (spelt, true_name, answer)
                text = json.dumps(answer).replace(spelt, "")
                for table in TABLES:
                    if not RIGHTS.allows(Action.READ, table_resource(table)):
                        assert table not in text, (spelt, answer)


def test_a_refusal_is_the_same_whether_or_not_there_is_such_a_table(scene: Scene) -> None:
    def refused(name: str) -> list[Any]:
        exceptions = scene.ask(f"SELECT COUNT(*) FROM {name}", Dialect.SQL)["exceptions"]
        return json.loads(json.dumps(exceptions).replace(name, "X"))  # type: ignore[no-any-return]

    assert refused("EV_secret") == refused("EV_nobody") == refused("ev_SECRET".upper())


def test_a_hint_names_the_nearest_table_that_the_client_may_see(scene: Scene) -> None:
    (error,) = scene.ask("SELECT COUNT(*) FROM ev_opem", Dialect.SQL)["exceptions"]
    assert "did you mean 'ev_open'?" in error["message"]
    (error,) = scene.ask("SELECT COUNT(*) FROM other_hiden", Dialect.SQL)["exceptions"]
    assert "Other_hidden" not in error["message"]
