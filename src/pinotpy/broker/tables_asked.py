"""Which table a query means: one of the cluster's, if the caller may read it, or one of the broker's system tables."""

from __future__ import annotations

import functools
from dataclasses import replace

from pinotpy.broker.catalog import Target
from pinotpy.broker.parts import LONG_WORK_MIN_BYTES, Broker, Question, TableRights
from pinotpy.broker.system.catalog_tables import USER_SCHEMA
from pinotpy.broker.system.statements import query_of
from pinotpy.broker.system.system_table import SystemTable, Viewer
from pinotpy.errors import AccessDeniedError, TableNotFoundError
from pinotpy.names import raw_table_name
from pinotpy.pql.ast import Dialect
from pinotpy.pql.catalog_statements import CatalogQuestion, catalog_statement

# Fewer records become rows at once, on the event loop.
INLINE_RECORDS_MAX = 200
# About what a record of the cluster takes as a row.
_RECORD_BYTES = 1_000


async def table_asked(broker: Broker, table: str, dialect: Dialect, rights: TableRights) -> Target:
    """The table that a query names. Raises what `resolved` and SystemTables.target raise."""
    system = system_table(broker, table, dialect, rights)
    if system is None:
        return resolved(broker, table, dialect, rights)
    assert broker.system is not None
    may_read_cluster = rights.may_read_cluster() if system.takes_cluster_right else True
    viewer = Viewer(rights.client, rights.may_see, may_read_cluster, rights.is_admin())
    make = functools.partial(broker.system.target, system, broker.system.known(), viewer)
    num_records = broker.system.num_records(system)
    if num_records <= INLINE_RECORDS_MAX:
        return make()
    size_bytes = num_records * _RECORD_BYTES
    return await broker.run_apart(make, min(size_bytes, LONG_WORK_MIN_BYTES))


def resolved(broker: Broker, table: str, dialect: Dialect, rights: TableRights) -> Target:
    """A table of the cluster. A refusal names it as the query does, and is the same if there is no such table."""
    true_name, asked_name = broker.catalog.true_name(table, dialect), raw_table_name(table)
    twins = () if true_name is not None else broker.catalog.twins(table, dialect)
    if seen := [f"'{name}'" for name in filter(rights.may_see, twins)]:
        raise TableNotFoundError(
            f"TableDoesNotExistError: no table '{asked_name[:200]}' in this letter case, which tells tables apart "
            f"here; write {' or '.join(seen)}",
            table=table,
        )
    if not rights.may_read(asked_name if true_name is None else true_name):
        if true_name not in (None, asked_name) and rights.may_see(asked_name):
            # Written as a table that they may read, if there were one: a refusal would tell of the other one.
            raise _not_found(broker, table, dialect, rights, broker.catalog.not_found(table, dialect))
        hint = _hint(_near_system_table(broker, table, dialect, rights))
        raise AccessDeniedError(
            f"'{rights.client}' may not read table '{table}', or there is no such table{hint}", table=table
        )
    try:
        return broker.catalog.resolve(table, dialect)
    except TableNotFoundError as error:
        raise _not_found(broker, table, dialect, rights, error) from None


def _not_found(
    broker: Broker, table: str, dialect: Dialect, rights: TableRights, error: TableNotFoundError
) -> TableNotFoundError:
    """The error with a hint of the nearest table that the caller may see."""
    near = next(filter(rights.may_see, error.context.get("near", ())), None)
    hint = _hint(near or _near_system_table(broker, table, dialect, rights))
    return TableNotFoundError(error.message + hint, table=table)


def _near_system_table(broker: Broker, table: str, dialect: Dialect, rights: TableRights) -> str | None:
    if broker.system is None or dialect is not Dialect.SQL:
        return None
    return broker.system.nearest(table, reads_cluster=rights.may_read_cluster())


def _hint(near: str | None) -> str:
    return "" if near is None else f"; did you mean {near!r}?"


def catalog_question(broker: Broker, question: Question, rights: TableRights) -> Question:
    """SHOW and DESCRIBE as the query that they mean; any other question as it is.

    Raises: ParseError; for a table that is not there, or not for the caller, what a query on it raises.
    """
    if question.dialect is not Dialect.SQL or broker.system is None:
        return question
    statement = catalog_statement(question.text)
    if statement is None:
        return question
    schema = table = ""
    if statement.asks_for is CatalogQuestion.COLUMNS:
        system = system_table(broker, statement.table, question.dialect, rights)
        if system is None:
            schema, table = USER_SCHEMA, resolved(broker, statement.table, question.dialect, rights).raw_table_name
        else:
            schema, table = system.schema_name, system.name.partition(".")[2]
    return replace(question, text=query_of(statement, schema, table, broker.limits.response_rows_max))


def system_table(broker: Broker, table: str, dialect: Dialect, rights: TableRights) -> SystemTable | None:
    """The system table of this name, where the caller sees no table of the cluster that has it."""
    if broker.system is None or dialect is not Dialect.SQL:
        return None
    system = broker.system.find(table)
    if system is None:
        return None
    own = broker.catalog.true_name(table, dialect)
    return None if own is not None and rights.may_see(own) else system
