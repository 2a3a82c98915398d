"""Which star-trees a segment gets: the table config's, and the one of the default rules."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pinotpy.config.index_checks import STAR_TREE_NUMBERS
from pinotpy.data_types import DataType, FieldType
from pinotpy.errors import Fault, InvalidConfigError
from pinotpy.kernels.aggregate.exact_sums import MORSEL_DOCS_MAX
from pinotpy.segment.data_source import Column
from pinotpy.segment.star_tree import metadata as names
from pinotpy.segment.star_tree.metadata import StateMetadata

if TYPE_CHECKING:
    from pinotpy.config.indexing import StarTreeIndexConfig
    from pinotpy.config.schema import Schema
    from pinotpy.config.table import TableConfig

MAX_LEAF_RECORDS_DEFAULT: Final = 10_000
# Pinot: StarTreeV2BuilderConfig.DIMENSION_CARDINALITY_THRESHOLD_FOR_DEFAULT_CONFIG
DEFAULT_CARDINALITY_MAX: Final = 10_000

# Function of a pair → kinds of its states.
STATES_OF: Final[Mapping[str, tuple[str, ...]]] = {
    "count": (),
    "sum": (names.SUM,),
    "avg": (names.SUM,),
    "min": (names.MIN,),
    "max": (names.MAX,),
    "minmaxrange": (names.MIN, names.MAX),
    "distinctcounthll": (names.HYPERLOGLOG,),
    "distinctcountrawhll": (names.HYPERLOGLOG,),
    "percentileest": (names.LONG_QUANTILES,),
    "percentiletdigest": (names.QUANTILES,),
}


@dataclass(frozen=True, slots=True)
class TreeSpec:
    """A tree to build; `path` names it in messages."""

    path: str
    dimensions: tuple[str, ...]
    skip_star_node_creation_for_dimensions: tuple[str, ...]
    pairs: tuple[str, ...]
    max_leaf_records: int


def configured_trees(schema: Schema, table_config: TableConfig | None) -> list[TreeSpec]:
    """The trees of `starTreeIndexConfigs`; raises InvalidConfigError with all faults that the schema shows."""
    if table_config is None:
        return []
    specs, faults = [], list[Fault]()
    for index, tree in enumerate(table_config.indexing.star_tree_index_configs):
        path = f"$.tableIndexConfig.starTreeIndexConfigs[{index}]"
        spec = TreeSpec(
            path,
            tree.dimensions_split_order,
            tree.skip_star_node_creation_for_dimensions,
            pairs_of(tree),
            tree.max_leaf_records if tree.max_leaf_records > 0 else MAX_LEAF_RECORDS_DEFAULT,
        )
        faults += _faults(spec, schema)
        specs.append(spec)
    if faults:
        raise InvalidConfigError("star-trees of this table cannot be built", tuple(faults))
    return specs


def pairs_of(tree: StarTreeIndexConfig) -> tuple[str, ...]:
    """The function-column pairs, those of `aggregationConfigs` among them."""
    newer = [f"{item.get('aggregationFunction')}__{item.get('columnName')}" for item in tree.aggregation_configs]
    return tuple(dict.fromkeys([*tree.function_column_pairs, *newer]))


def default_tree(columns: Mapping[str, Column]) -> TreeSpec | None:
    """The tree of `enableDefaultStarTree`; None where a segment has no dimension for it.

    Pinot, StarTreeV2BuilderConfig.generateDefaultConfig: single-value dictionary-encoded dimensions of at most 10,000
    values, by cardinality descending, then the time columns by the same rule; COUNT(*), and SUM of every numeric
    metric.
    """
    fitting = [column for column in columns.values() if column.single_value and column.dictionary is not None]
    dimensions = [
        column
        for column in fitting
        if column.field_type is FieldType.DIMENSION and column.cardinality <= DEFAULT_CARDINALITY_MAX
    ]
    times = [column for column in fitting if column.field_type in (FieldType.TIME, FieldType.DATE_TIME)]
    order = [
        column.name for group in (dimensions, times) for column in sorted(group, key=lambda column: -column.cardinality)
    ]
    measures = [column for column in columns.values() if column.field_type is FieldType.METRIC and column.single_value]
    metrics = [column.name for column in measures if column.data_type in STAR_TREE_NUMBERS]
    if not dimensions or len(order) > names.DIMENSIONS_MAX:
        return None
    pairs = ("COUNT__*", *(f"SUM__{name}" for name in metrics))
    return TreeSpec("$.tableIndexConfig.enableDefaultStarTree", tuple(order), (), pairs, MAX_LEAF_RECORDS_DEFAULT)


def states_of(spec: TreeSpec, columns: Mapping[str, Column]) -> tuple[StateMetadata, ...]:
    """The states that the pairs of a tree need, each once."""
    states = dict[tuple[str, str], StateMetadata]()
    for pair in spec.pairs:
        function, column = split_pair(pair)
        for kind in STATES_OF[function]:
            states.setdefault((kind, column), StateMetadata(kind, column, columns[column].data_type))
    return tuple(states.values())


def why_not(spec: TreeSpec, columns: Mapping[str, Column], num_docs: int) -> str | None:
    """What of a segment keeps a tree from being built; None: nothing."""
    for name in spec.dimensions:
        if columns[name].dictionary is None:
            return f"its dimension '{name}' has no dictionary"
    if num_docs > MORSEL_DOCS_MAX and any(
        state.kind == names.SUM and state.data_type.stored.is_floating for state in states_of(spec, columns)
    ):
        return f"sums of doubles are kept for at most {MORSEL_DOCS_MAX} rows a segment, found {num_docs}"
    return None


def split_pair(pair: str) -> tuple[str, str]:
    """(canonical function, column) of SUM__price."""
    function, _, column = pair.partition("__")
    return function.lower().replace("_", ""), column


def _faults(spec: TreeSpec, schema: Schema) -> list[Fault]:
    faults = []
    for position, name in enumerate(spec.dimensions):
        column = schema.field_specs.get(name)
        if column is None or not column.single_value:
            faults.append(
                Fault(
                    f"{spec.path}.dimensionsSplitOrder[{position}]", f"'{name}'", "a single-valued column of the schema"
                )
            )
    if len(spec.dimensions) > names.DIMENSIONS_MAX:
        faults.append(
            Fault(
                f"{spec.path}.dimensionsSplitOrder",
                f"{len(spec.dimensions)} dimensions",
                f"at most {names.DIMENSIONS_MAX}",
            )
        )
    for pair in spec.pairs:
        function, name = split_pair(pair)
        kinds, column = STATES_OF.get(function), schema.field_specs.get(name)
        if kinds is None:
            faults.append(
                Fault(f"{spec.path}.functionColumnPairs", f"'{pair}'", "a function of " + ", ".join(STATES_OF).upper())
            )
        elif kinds and (column is None or not column.single_value):
            faults.append(
                Fault(f"{spec.path}.functionColumnPairs", f"'{pair}'", "a single-valued column of the schema")
            )
        elif column is not None and kinds and not _accepts(kinds, column.data_type):
            faults.append(
                Fault(f"{spec.path}.functionColumnPairs", f"'{pair}' of type {column.data_type}", _accepted(kinds))
            )
    return faults


def _accepts(kinds: tuple[str, ...], data_type: DataType) -> bool:
    # Serialized sketches differ in size from column to column; BIG_DECIMAL has no bounded sum.
    return data_type is not DataType.BYTES if names.HYPERLOGLOG in kinds else data_type in STAR_TREE_NUMBERS


def _accepted(kinds: tuple[str, ...]) -> str:
    return "values, not BYTES" if names.HYPERLOGLOG in kinds else "a column of type " + ", ".join(STAR_TREE_NUMBERS)
