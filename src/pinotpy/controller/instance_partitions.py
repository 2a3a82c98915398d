"""The instance partitions of a table: dealt once, stored, and read at each assignment, so that the segments of one
partition stay on the same servers whatever servers join.
"""

from __future__ import annotations

import logging

from pinotpy.cluster.instance_partitions import InstancePartitions
from pinotpy.config.table import TableConfig
from pinotpy.controller.assignment.candidates import check_enough, rotated_candidates
from pinotpy.controller.assignment.group_shape import GroupShape
from pinotpy.controller.assignment.partition_aware import deal_partitions, fits, mended
from pinotpy.controller.catalog import Catalog
from pinotpy.errors import DecodeError, NodeExistsError, StaleVersionError

LOG = logging.getLogger(__name__)
ATTEMPTS_MAX = 5


def group_candidates(catalog: Catalog, config: TableConfig, shape: GroupShape) -> tuple[str, ...]:
    """Servers for a table's replica groups in the order of assignment; UserError with the numbers if they are too
    few.
    """
    name = config.name_with_type
    candidates = rotated_candidates(catalog.instances_with_tag(shape.tag, role="Server"), name)
    check_enough(candidates, shape.num_groups, tag=shape.tag, table_name_with_type=name)
    return candidates


def instance_partitions(
    catalog: Catalog, config: TableConfig, shape: GroupShape, *, anew: bool = False, writes: bool = True
) -> InstancePartitions:
    """What is stored for a table, where it still is of the config's shape and of servers that bear its tag; else what
    takes its place, which is stored.

    Args:
        anew: deal them again, over all servers that there are now.
        writes: false: only say what they would be.

    Raises:
        UserError: there are too few servers. StaleVersionError: others write them all the time.
    """
    name = config.name_with_type
    candidates = group_candidates(catalog, config, shape)
    for _ in range(ATTEMPTS_MAX):
        try:
            stored = catalog.instance_partitions.read(name)
            known, version = (None, None) if stored is None else (stored.partitions, stored.version)
        except DecodeError as error:
            LOG.error("instance partitions cannot be read, they are dealt anew table=%s reason=%s", name, error.message)
            catalog.instance_partitions.forget(name)
            known, version = None, None
        wanted, why = _wanted(known, candidates, config, shape, anew=anew)
        if wanted == known or not writes:
            return wanted
        try:
            catalog.instance_partitions.write(name, wanted, version, catalog.fences())
        except (StaleVersionError, NodeExistsError):
            continue
        LOG.log(
            logging.INFO if known is None else logging.WARNING,
            "instance partitions stored table=%s reason=%s partitions=%d replica_groups=%d servers=%d",
            name,
            why,
            wanted.num_partitions,
            wanted.num_replica_groups,
            len(wanted.instances),
        )
        return wanted
    raise StaleVersionError(f"the instance partitions of table '{name}' change all the time: try again", table=name)


def _wanted(
    known: InstancePartitions | None, candidates: tuple[str, ...], config: TableConfig, shape: GroupShape, *, anew: bool
) -> tuple[InstancePartitions, str]:
    """The instance partitions, and why they are not the known ones."""
    why = "there were none" if known is None else "asked for" if anew else "the table config asks for another shape"
    if known is not None and not anew and fits(known, shape):
        kept = mended(known, candidates)
        if kept is not None:
            return kept, "servers that left were replaced"
        why = "servers left, and too few others are free to replace them"
    return deal_partitions(candidates, shape, table_name_with_type=config.name_with_type), why
