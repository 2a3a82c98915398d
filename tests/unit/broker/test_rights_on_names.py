"""Proves that rights are asked of a table's true name, however a query spells it, in both dialects, and that no
refusal, no hint and no row of a system table names a table that the client may not see, or tells whether there is one.
"""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest
from tables_to_hide import RIGHTS, SERVER, TABLES, Scene

from pinotpy.pql.ast import Dialect
from pinotpy.service.rights import Action, Rights, table_resource

DENIED, NOT_THERE = 180, 190
STATEMENTS = ("SELECT COUNT(*) FROM {}", "SELECT nothing FROM {} LIMIT 3", "EXPLAIN PLAN FOR SELECT id FROM {}")
STATEMENTS_SQL = ("EXPLAIN ANALYZE SELECT id FROM {}", "DESCRIBE {}", "SHOW COLUMNS FROM {}")
SYSTEM_TABLES = (
    "information_schema.tables",
    "information_schema.columns",
    "system.tables",
    "system.segments",
    "system.queries",
)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def spellings(name: str, dice: random.Random) -> list[str]:
    mixed = "".join(dice.choice([str.lower, str.upper])(letter) for letter in name)
    plain = [name, name.lower(), name.upper(), mixed]
    return [spelt + ending for spelt in plain for ending in ("", "_OFFLINE", "_REALTIME")]


@pytest.mark.parametrize("dialect", list(Dialect))
@pytest.mark.parametrize("statement", [*STATEMENTS, *STATEMENTS_SQL])
def test_every_spelling_has_the_rights_of_the_true_name(scene: Scene, dialect: Dialect, statement: str) -> None:
    if dialect is Dialect.PQL and statement in STATEMENTS_SQL:
        return  # PQL has no such statements
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
                # Who may read a table of the name as it is written is told that there is none.
                refused = NOT_THERE if RIGHTS.allows(Action.READ, table_resource(raw)) else DENIED
                assert is_allowed or refused in codes, (spelt, true_name, answer)
                assert not (is_allowed and DENIED in codes), (spelt, true_name, answer)
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
    # Of system tables one that the client may read.
    (error,) = scene.ask("SELECT * FROM system.segmnts")["exceptions"]
    assert "did you mean 'system.segments'?" in error["message"]
    (error,) = scene.ask("SELECT * FROM system.instancs")["exceptions"]
    assert "system.instances" not in error["message"]


# --- system tables ----------------------------------------------------------------------------------------------------


def rows_of(scene: Scene, text: str, rights: Rights = RIGHTS) -> list[dict[str, Any]]:
    """The rows of the system table that a query brings along."""
    scene.ask(text, rights=rights)
    return scene.rows


def reading(tables: list[str]) -> Rights:
    return Rights(tables=tuple((table, frozenset({Action.READ})) for table in tables))


ADMIN = Rights(tables=(("*", frozenset({Action.ADMIN})),), cluster=frozenset({Action.ADMIN}))


def test_no_row_of_a_system_table_names_what_the_caller_may_not_see(scene: Scene) -> None:
    dice = random.Random(11)
    for table in TABLES:  # queries of another user, that system.queries could show
        scene.ask(f"SELECT id FROM {table}", rights=ADMIN, user="ops")
    for _ in range(20):
        seen = [table for table in TABLES if dice.random() < 0.5]
        for system in SYSTEM_TABLES:
            schema, name = system.split(".")
            spelt = dice.choice([system, system.upper(), f"default.{system}", f'"{schema}"."{name}"', f'"{system}"'])
            rows = rows_of(scene, f"SELECT * FROM {spelt}", reading(seen))
            text = json.dumps(rows)
            for table in TABLES:
                is_named = table in seen and system != "system.queries"
                assert (f'"{table}"' in text, table in text) == (is_named, is_named), (system, table, seen)
        listed = [row for row in rows_of(scene, "SHOW TABLES", reading(seen)) if row["table_schema"] == "default"]
        assert [row["table_name"] for row in listed] == sorted(seen)


def test_who_may_read_tables_but_not_the_cluster_is_refused_its_instances(scene: Scene) -> None:
    (error,) = scene.ask("SELECT * FROM system.instances")["exceptions"]
    assert error["errorCode"] == DENIED and "READ on the cluster" in error["message"] and not scene.rows
    found = rows_of(scene, "SELECT * FROM system.instances", Rights(cluster=frozenset({Action.READ})))
    assert [row["instance_name"] for row in found] == [SERVER]


def test_queries_are_seen_by_who_asked_them_and_by_administrators(scene: Scene) -> None:
    asked = "SELECT COUNT(*) FROM system.queries"
    scene.ask("SELECT id FROM ev_open", user="bob")
    scene.ask("SELECT id FROM other", user="ann")
    assert [(row["user_name"], row["table_name"]) for row in rows_of(scene, asked)] == [("bob", "ev_open")]
    assert {row["user_name"] for row in rows_of(scene, asked, ADMIN)} == {"ann", "bob"}
    # A token of bob's that may read another table only.
    assert {row["table_name"] for row in rows_of(scene, asked, reading(["other"]))} <= {"system.queries"}


def test_a_table_of_a_user_goes_before_a_system_table_for_who_may_see_it() -> None:
    scene = Scene("system", "system.tables")
    for name in ("system", "system.tables"):
        # The server that is asked cannot be reached; of the user's table it would have been asked for segments.
        answer = scene.ask(f"SELECT id FROM {name}", rights=reading([name]))
        assert (answer["tablesQueried"], answer["exceptions"][0]["errorCode"], scene.rows) == ([name], 425, [])
    assert rows_of(scene, "SELECT table_name FROM system.tables", reading(["other"])), (
        "who may not see it has the other"
    )


def test_of_tables_whose_names_differ_in_letter_case_alone_only_the_exact_spelling_is_one() -> None:
    scene = Scene(tables=("ev_twin", "EV_twin", "EV_own", "EV_OWN"))
    everything = Rights(tables=(("*", frozenset({Action.READ})),))

    def refused(name: str, rights: Rights) -> dict[str, Any]:
        answer = scene.ask(f"SELECT COUNT(*) FROM {name}", Dialect.SQL, rights)
        return answer["exceptions"][0]  # type: ignore[no-any-return]

    for statement in ("SELECT COUNT(*) FROM {}", "DESCRIBE {}", "EXPLAIN PLAN FOR SELECT id FROM {}"):
        (error, *_) = scene.ask(statement.format("Ev_Twin"), Dialect.SQL, everything)["exceptions"]
        assert error["errorCode"] == NOT_THERE and "write 'EV_twin' or 'ev_twin'" in error["message"]
    for name in ("ev_twin", "EV_twin"):
        assert refused(name, everything)["errorCode"] not in (NOT_THERE, DENIED)  # its server was asked
    # Who may see one of them is told of that one only, who may see none what a table that is not there would be.
    error = refused("Ev_Twin", RIGHTS)
    assert error["errorCode"] == NOT_THERE and "write 'ev_twin'" in error["message"] and "EV_twin" not in str(error)
    one, none = (json.dumps(refused(name, RIGHTS)).replace(name, "X") for name in ("Ev_Own", "Ev_Not"))
    assert one == none


def test_a_table_whose_config_cannot_be_read_is_still_there_for_those_who_may_see_it() -> None:
    scene = Scene()
    unreadable = {("table_configs", f"{name}_OFFLINE"): "it is no JSON" for name in ("other", "Other_hidden")}
    configs = {name: config for name, config in scene.view.table_configs.items() if "ther" not in name}
    scene.view = replace(scene.view, table_configs=configs, unreadable=unreadable)
    (error, *_) = scene.ask("SELECT COUNT(*) FROM other")["exceptions"]
    assert error["errorCode"] == 450 and "it is no JSON" in error["message"]
    (error, *_) = scene.ask("SELECT COUNT(*) FROM other_hidden")["exceptions"]
    assert error["errorCode"] == NOT_THERE and "JSON" not in error["message"]
    scene.ask("SELECT table_name FROM information_schema.tables LIMIT 100")
    listed = {row["table_name"] for row in scene.rows}
    assert {"other", "ev_open"} <= listed and "Other_hidden" not in listed
    scene.ask("SELECT * FROM system.tables LIMIT 100")
    assert "other_OFFLINE" in str(scene.rows) and "Other_hidden" not in str(scene.rows)
