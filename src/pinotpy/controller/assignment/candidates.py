"""The servers that a table may use, in the order that spreads tables over servers."""

from __future__ import annotations

from collections.abc import Iterable

from pinotpy.errors import UserError


def java_hash(text: str) -> int:
    """`String.hashCode` of Java over UTF-16 code units, as a signed 32-bit number.

    Pinot rotates a table's servers by it; using the same number keeps placements equal for people who migrate.
    """
    value = 0
    units = text.encode("utf-16-be")
    for index in range(0, len(units), 2):
        value = (31 * value + (units[index] << 8 | units[index + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value & 0x80000000 else value


def rotated_candidates(instances: Iterable[str], table_name_with_type: str) -> tuple[str, ...]:
    """Instances sorted by name, rotated left by |javaHash(table)| % n, so that not every table begins at the first
    server.
    """
    ordered = sorted(set(instances))
    if not ordered:
        return ()
    shift = abs(java_hash(table_name_with_type)) % len(ordered)
    return tuple(ordered[shift:] + ordered[:shift])


def check_enough(candidates: tuple[str, ...], replication: int, *, tag: str, table_name_with_type: str) -> None:
    """Refuse a table or segment that cannot have its replicas; the texts are those that Pinot's clients know."""
    if not candidates:
        raise UserError(
            f"No instance found with tag: {tag} for table: {table_name_with_type}", table=table_name_with_type, tag=tag
        )
    if len(candidates) < replication:
        raise UserError(
            f"Number of instances: {len(candidates)} with tag: {tag} < table replication: {replication} for table: "
            f"{table_name_with_type}",
            table=table_name_with_type,
            tag=tag,
            found=len(candidates),
            needed=replication,
        )
