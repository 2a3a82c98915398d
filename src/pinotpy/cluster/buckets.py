"""Records of resources, in one node or cut into buckets.

Up to BUCKET_FROM segments a resource is one node, as Pinot writes it. Above, the node keeps the simple fields and the
lists that are of no segment, names its layout (BUCKET_SIZE, BUCKET_COUNT, BUCKET_GENERATION), and child nodes
`<resource>_b<generation>_<k>` hold the map fields and lists of segments, so that a commit writes one bucket and a
reader decodes one. A segment's bucket is a pure function of its name: all segments of one stream partition share one.
Changing the number of buckets writes a new generation beside the old one and switches by one versioned write.
"""

from __future__ import annotations

import secrets
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from pinotpy.cluster.records import ZNRecord
from pinotpy.cluster.store import (
    MULTI_OPS_MAX,
    RECORD_BYTES_MAX,
    Check,
    ClusterStore,
    Create,
    Delete,
    Op,
    SetData,
    name_of,
)
from pinotpy.errors import ClusterError, NoNodeError

BUCKET_FROM = 5_000  # segments from which a resource is cut
_PARTITIONS_PER_NEW_BUCKET = 500
_PARTITIONS_PER_BUCKET_MAX = 4_000  # average from which it is cut anew
_LAYOUT_FIELDS = ("BUCKET_SIZE", "BUCKET_COUNT", "BUCKET_GENERATION")
_READ_ATTEMPTS = 5
# Of one multi that changes several, before they are changed; the records of the segments go into it as well.
_BUCKETS_BYTES_MAX = RECORD_BYTES_MAX // 2


@dataclass(frozen=True, slots=True)
class Layout:
    """How a resource is stored; `num_buckets` 0 = one node."""

    num_buckets: int = 0
    generation: str = ""

    def bucket_path(self, path: str, bucket: int) -> str:
        return f"{path}/{name_of(path)}_b{self.generation}_{bucket}"

    def bucket_paths(self, path: str) -> list[str]:
        return [self.bucket_path(path, bucket) for bucket in range(self.num_buckets)]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A whole record with what a versioned write needs: the versions of its nodes and what is in each bucket."""

    record: ZNRecord
    layout: Layout
    versions: dict[str, int]
    buckets: tuple[ZNRecord, ...] = ()

    def after(self, plan: WritePlan, record: ZNRecord) -> StoredRecord:
        """What is stored once `plan` (without a new layout) was written by us: saves its only writer a read."""
        assert not plan.prepare
        versions = dict(self.versions)
        for op in plan.commit:
            if isinstance(op, SetData):
                versions[op.path] += 1
        buckets = tuple(bucket for _, bucket in _bucket_records("", record, self.layout))
        simple = {key: value for key, value in record.simple_fields.items() if key not in _LAYOUT_FIELDS}
        return StoredRecord(
            ZNRecord(record.id, simple, record.map_fields, record.list_fields), self.layout, versions, buckets
        )


@dataclass(frozen=True, slots=True)
class WritePlan:
    """Multis to prepare, then the one that makes it visible, then what may be cleaned up."""

    commit: list[Op]
    prepare: list[list[Op]] = field(default_factory=list)
    cleanup: list[Op] = field(default_factory=list)

    def transactions(self) -> list[list[Op]]:
        """`prepare` and `commit` in as many multis as their size takes: for a record with one writer, whose readers
        take each segment by itself (current states, external views). When it is cut off, what was written stands.
        """
        return [*self.prepare, *in_multis(self.commit)]

    def with_ops(self, ops: Iterable[Op]) -> WritePlan:
        """These operations in the same multi."""
        return WritePlan([*self.commit, *ops], self.prepare, self.cleanup)


def layout_of(record: ZNRecord) -> Layout:
    """The layout that a main record names."""
    count = record.simple_fields.get("BUCKET_COUNT", "0")
    return Layout(int(count) if count.isdigit() else 0, record.simple_fields.get("BUCKET_GENERATION", ""))


def bucket_of(partition: str, num_buckets: int) -> int:
    """The bucket of a segment; `table__3__17__time` goes by its stream partition 3."""
    parts = partition.split("__")
    if len(parts) == 4 and parts[1].isdigit():
        return int(parts[1]) % num_buckets
    return zlib.crc32(partition.encode()) % num_buckets


def merge(main: ZNRecord, buckets: Iterable[ZNRecord]) -> ZNRecord:
    """The whole record, without layout fields."""
    simple = {key: value for key, value in main.simple_fields.items() if key not in _LAYOUT_FIELDS}
    partitions, lists = dict(main.map_fields), dict(main.list_fields)
    for bucket in buckets:
        partitions.update(bucket.map_fields)
        lists.update(bucket.list_fields)
    return ZNRecord(main.id, simple, partitions, lists)


def read_record(store: ClusterStore, path: str) -> StoredRecord | None:
    """Read a resource's record with all its buckets; None when there is none.

    Raises ClusterError when its buckets keep changing while it is read.
    """
    for _ in range(_READ_ATTEMPTS):
        try:
            data, stat = store.get(path)
        except NoNodeError:
            return None
        main = ZNRecord.from_bytes(data, path)
        layout = layout_of(main)
        paths = layout.bucket_paths(path)
        nodes = store.get_many(paths)
        if any(node is None for node in nodes):
            continue  # cut anew between the two reads
        buckets = [ZNRecord.from_bytes(node[0], where) for where, node in zip(paths, nodes, strict=True) if node]
        versions = {path: stat.version} | {
            where: node[1].version for where, node in zip(paths, nodes, strict=True) if node
        }
        return StoredRecord(merge(main, buckets), layout, versions, tuple(buckets))
    raise ClusterError(
        f"the buckets of '{path}' changed {_READ_ATTEMPTS} times while it was read; try again", path=path
    )


def plan_write(path: str, stored: StoredRecord | None, new: ZNRecord, *, show_bucket_size: bool = False) -> WritePlan:
    """The versioned writes that turn what is stored into `new`; an empty commit when they are equal.

    `show_bucket_size` writes BUCKET_SIZE=0 in one-node records, as Helix does in current states and external views.
    """
    layout = _wanted_layout(stored, len(new.map_fields))
    unchanged_layout = stored is not None and layout == stored.layout
    main_bytes = _main_record(new, layout, show_bucket_size).to_bytes()
    if stored is None:
        if not layout.num_buckets:
            return WritePlan([Create(path, main_bytes)])
        # Empty, and in one node, until its buckets are there.
        empty = ZNRecord(new.id, new.simple_fields, {}, {})
        begin: Op = Create(path, _main_record(empty, Layout(), show_bucket_size).to_bytes())
        return WritePlan([SetData(path, main_bytes, 0)], [[begin], *in_multis(_creates(path, new, layout))])
    version = stored.versions[path]
    if unchanged_layout:
        is_main_equal = main_bytes == _main_record(stored.record, layout, show_bucket_size).to_bytes()
        bucket_writes: list[Op] = [
            SetData(where, record.to_bytes(), stored.versions[where])
            for (where, record), old in zip(_bucket_records(path, new, layout), stored.buckets, strict=True)
            if (record.map_fields, record.list_fields) != (old.map_fields, old.list_fields)
        ]
        if is_main_equal:
            return WritePlan([Check(path, version), *bucket_writes] if bucket_writes else [])
        return WritePlan([SetData(path, main_bytes, version), *bucket_writes])
    old_buckets = stored.layout.bucket_paths(path)
    return WritePlan(
        commit=[SetData(path, main_bytes, version), *(Check(where, stored.versions[where]) for where in old_buckets)],
        prepare=in_multis(_creates(path, new, layout)),
        cleanup=[Delete(where) for where in old_buckets],
    )


def plan_delete(store: ClusterStore, path: str, stored: StoredRecord) -> list[Op]:
    """One multi that deletes the record with its buckets, also those that an unfinished cut left behind."""
    return [*(Delete(f"{path}/{name}") for name in store.children(path)), Delete(path, stored.versions[path])]


def plan_without_buckets(path: str, stored: StoredRecord) -> WritePlan:
    """An empty record in one node, of which more buckets go than `plan_delete` takes into one multi. Who writes a
    bucket checks the version of the main node.
    """
    empty = ZNRecord(stored.record.id, stored.record.simple_fields, {}, {})
    return WritePlan(
        [SetData(path, _main_record(empty, Layout(), False).to_bytes(), stored.versions[path])],
        cleanup=[Delete(where) for where in stored.layout.bucket_paths(path)],
    )


def fitting(stored: StoredRecord, names: Sequence[str], most: int) -> list[int]:
    """The places in `names` of the segments, at most `most` of them, that one multi changes: all there is of an uncut
    record; of a cut one those of as many buckets as a multi takes beside what else is written of so many segments.
    """
    num_buckets = stored.layout.num_buckets
    if not num_buckets:
        return list(range(min(len(names), most)))
    by_bucket: dict[int, list[int]] = {}
    for place, name in enumerate(names):
        by_bucket.setdefault(bucket_of(name, num_buckets), []).append(place)
    places: list[int] = []
    left = _BUCKETS_BYTES_MAX
    for bucket, members in by_bucket.items():
        left -= len(stored.buckets[bucket].to_bytes())
        if len(places) >= most or (places and left < 0):
            break
        places += members
    return places[:most]


def in_multis(ops: Iterable[Op]) -> list[list[Op]]:
    """Cut operations into multis that the store takes (with room for a few fences)."""
    multis: list[list[Op]] = []
    size = 0
    for op in ops:
        op_size = len(op.data) if isinstance(op, Create | SetData) else 0
        if not multis or len(multis[-1]) >= MULTI_OPS_MAX - 10 or size + op_size >= RECORD_BYTES_MAX:
            multis.append([])
            size = 0
        multis[-1].append(op)
        size += op_size
    return multis


def _creates(path: str, record: ZNRecord, layout: Layout) -> list[Op]:
    return [Create(where, bucket.to_bytes()) for where, bucket in _bucket_records(path, record, layout)]


def _wanted_layout(stored: StoredRecord | None, num_partitions: int) -> Layout:
    layout = stored.layout if stored else Layout()
    is_full = (
        num_partitions > BUCKET_FROM
        if not layout.num_buckets
        else num_partitions > layout.num_buckets * _PARTITIONS_PER_BUCKET_MAX
    )
    if not is_full:
        return layout
    num_buckets = 1 << (num_partitions // _PARTITIONS_PER_NEW_BUCKET).bit_length()
    return Layout(num_buckets, secrets.token_hex(4))


def _main_record(record: ZNRecord, layout: Layout, show_bucket_size: bool) -> ZNRecord:
    simple = {key: value for key, value in record.simple_fields.items() if key not in _LAYOUT_FIELDS}
    if layout.num_buckets:
        simple |= {
            "BUCKET_SIZE": str(_PARTITIONS_PER_NEW_BUCKET),
            "BUCKET_COUNT": str(layout.num_buckets),
            "BUCKET_GENERATION": layout.generation,
        }
        others = {name: texts for name, texts in record.list_fields.items() if name not in record.map_fields}
        return ZNRecord(record.id, simple, {}, others)
    if show_bucket_size:
        simple["BUCKET_SIZE"] = "0"
    return ZNRecord(record.id, simple, record.map_fields, record.list_fields)


def _bucket_records(path: str, record: ZNRecord, layout: Layout) -> list[tuple[str, ZNRecord]]:
    if not layout.num_buckets:
        return []
    contents: list[dict[str, dict[str, str]]] = [{} for _ in range(layout.num_buckets)]
    for partition, states in record.map_fields.items():
        contents[bucket_of(partition, layout.num_buckets)][partition] = states
    lists: list[dict[str, list[str]]] = [{} for _ in range(layout.num_buckets)]
    for name, texts in record.list_fields.items():
        if name in record.map_fields:
            lists[bucket_of(name, layout.num_buckets)][name] = texts
    paths = layout.bucket_paths(path)
    return [
        (where, ZNRecord(name_of(where), {}, content, some))
        for where, content, some in zip(paths, contents, lists, strict=True)
    ]
