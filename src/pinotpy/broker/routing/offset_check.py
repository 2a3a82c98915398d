"""Whether the records of a stream that an answer is made of tile: of each partition none twice, none left out between
two others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise

from pinotpy.query.result.partial import OffsetRange


def offset_faults(ranges: Mapping[str, Sequence[OffsetRange]]) -> list[str]:
    """What is wrong, in words; empty if nothing is.

    Args:
        ranges: by server, in any order; ends that are not known are not compared.
    """
    partitions: dict[int, list[tuple[int, str, OffsetRange]]] = {}
    for server, answered in ranges.items():
        for each in answered:
            partitions.setdefault(each.partition, []).append((each.sequence, server, each))
    faults = []
    for partition, chain in sorted(partitions.items()):
        chain.sort(key=lambda entry: entry[:2])
        for (sequence, server, before), (following, other, after) in pairwise(chain):
            if sequence == following:
                faults.append(
                    f"partition {partition}: segment '{after.segment}' is answered by '{server}' and by '{other}'"
                )
            elif following != sequence + 1:
                faults.append(
                    f"partition {partition}: no answer for the segments between '{before.segment}' and "
                    f"'{after.segment}'"
                )
            elif before.end and after.start and before.end != after.start:
                faults.append(
                    f"partition {partition}: '{server}' answers '{before.segment}' up to offset {before.end}, and "
                    f"'{other}' '{after.segment}' from {after.start} on"
                )
    return faults
