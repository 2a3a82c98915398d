"""`tableIndexConfig` and `fieldConfigList`: dictionaries, encodings and indexes of columns."""

from __future__ import annotations

from enum import StrEnum
from functools import cached_property
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, model_validator

from pinotpy.config.document import Document, Number, Text, Truth, WholeNumber, named
from pinotpy.config.unread_keys import flatten

STAR_TREE_FUNCTIONS = (
    "COUNT",
    "MIN",
    "MAX",
    "SUM",
    "AVG",
    "MINMAXRANGE",
    "DISTINCTCOUNTHLL",
    "DISTINCTCOUNTRAWHLL",
    "PERCENTILEEST",
    "PERCENTILETDIGEST",
)


class LoadMode(StrEnum):
    """HEAP: servers read segments into memory. MMAP: they map them."""

    HEAP = "HEAP"
    MMAP = "MMAP"


class MinMaxMode(StrEnum):
    """For which columns min and max are kept: none, all, the time column, all but metrics."""

    NONE = "NONE"
    ALL = "ALL"
    TIME = "TIME"
    NON_METRIC = "NON_METRIC"


class PartitionFunction(StrEnum):
    """Functions from a value to a partition number."""

    MODULO = "Modulo"
    MURMUR = "Murmur"
    MURMUR2 = "Murmur2"
    MURMUR3 = "Murmur3"
    HASH_CODE = "HashCode"
    BYTE_ARRAY = "ByteArray"
    BOUNDED_COLUMN_VALUE = "BoundedColumnValue"

    @property
    def is_built(self) -> bool:
        """Whether segments record partitions by it (`segment.partition`)."""
        return self not in (PartitionFunction.MURMUR3, PartitionFunction.BOUNDED_COLUMN_VALUE)


class EncodingType(StrEnum):
    """RAW: values as they are. DICTIONARY: ids into a sorted dictionary."""

    RAW = "RAW"
    DICTIONARY = "DICTIONARY"


class DictIdEncoding(StrEnum):
    """How dict ids are stored in the forward index; our own key, in `fieldConfigList[].properties.dictIdEncoding`."""

    AUTO = "AUTO"
    BYTE_ALIGNED = "BYTE_ALIGNED"
    FIXED_BIT = "FIXED_BIT"


class IndexType(StrEnum):
    """Index types that a field config can name."""

    INVERTED = "INVERTED"
    SORTED = "SORTED"
    RANGE = "RANGE"
    TEXT = "TEXT"
    JSON = "JSON"
    TIMESTAMP = "TIMESTAMP"
    FST = "FST"
    IFST = "IFST"
    H3 = "H3"
    VECTOR = "VECTOR"


# Those that are built; names of others are kept, and told to whoever sends them.
BUILT_INDEXES = ("BLOOM", "INVERTED", "JSON", "RANGE", "TEXT")


class CompressionCodec(StrEnum):
    """Compression of raw columns, by chunk."""

    PASS_THROUGH = "PASS_THROUGH"
    SNAPPY = "SNAPPY"
    ZSTANDARD = "ZSTANDARD"
    LZ4 = "LZ4"
    GZIP = "GZIP"
    DELTA = "DELTA"
    DELTADELTA = "DELTADELTA"
    MV_ENTRY_DICT = "MV_ENTRY_DICT"
    CLP = "CLP"


class SegmentVersion(StrEnum):
    """Segment formats of the reference; ours is one, the key is accepted."""

    V1 = "v1"
    V2 = "v2"
    V3 = "v3"


class ColumnPartitionConfig(Document):
    """Partition function of one column."""

    function_name: Annotated[PartitionFunction, named(PartitionFunction)] = Field(
        description="Function from a value to its partition. Not yet: Murmur3, BoundedColumnValue; such a column is "
        "not partitioned."
    )
    num_partitions: WholeNumber = Field(ge=1, le=2**31 - 1, description="Number of partitions.")
    function_config: dict[str, Any] | None = Field(None, description="Not yet: arguments of the function.")


class SegmentPartitionConfig(Document):
    """Partitioned columns by name; brokers (of a table with one of them) and servers prune segments by them."""

    column_partition_map: dict[str, ColumnPartitionConfig] = Field(description="Column → partition function.")


class StarTreeIndexConfig(Document):
    """One star-tree: split order and pre-aggregated pairs."""

    dimensions_split_order: tuple[Text, ...] = Field(min_length=1, description="Dimensions from the root down.")
    skip_star_node_creation_for_dimensions: tuple[Text, ...] = Field((), description="Dimensions without star nodes.")
    function_column_pairs: tuple[Text, ...] = Field((), description="FUNCTION__column, such as SUM__price or COUNT__*.")
    aggregation_configs: tuple[dict[str, Any], ...] = Field((), description="The newer form of functionColumnPairs.")
    max_leaf_records: WholeNumber = Field(
        10_000, le=2**31 - 1, description="Maximum records of a leaf node; 0 or less = 10000."
    )


class BloomFilterConfig(Document):
    """Size of one bloom filter."""

    fpp: Number = Field(0.05, gt=0, lt=1, description="False-positive rate.")
    max_size_in_bytes: WholeNumber = Field(0, ge=0, description="Largest size in bytes; 0 = no limit.")
    load_on_heap: Truth = Field(False, description="Accepted; filters are always mapped.")


def _none_is_empty(value: Any) -> Any:
    return () if value is None else value


Texts = Annotated[tuple[Text, ...], BeforeValidator(_none_is_empty)]


class JsonIndexConfig(Document):
    """Which parts of documents a JSON index contains. For the others, JSON_MATCH reads the documents: correct, but much
    slower.
    """

    max_levels: WholeNumber = Field(
        -1, ge=-1, description="Levels of objects and arrays that are indexed; -1 or 0 = all."
    )
    exclude_array: Truth = Field(False, description="Leave out arrays.")
    disable_cross_array_unnest: Truth = Field(False, description="Sibling arrays are not combined.")
    include_paths: Texts = Field((), description="Only these paths and everything below, such as $.a.b.")
    exclude_paths: Texts = Field((), description="Paths to leave out.")
    exclude_fields: Texts = Field((), description="Keys to leave out at any depth.")
    max_value_length: WholeNumber = Field(0, ge=0, description="Longer values are indexed as $SKIPPED$; 0 = no limit.")
    skip_invalid_json: Truth = Field(False, description="Accepted; text that is no JSON has nothing to match.")


class FieldConfig(Document):
    """Encoding and indexes of one column. What it asks for and nobody builds is kept, and told among
    `unrecognizedProperties`.
    """

    name: Text = Field(description="Column.")
    encoding_type: Annotated[EncodingType, named(EncodingType)] | None = Field(None, description="RAW or DICTIONARY.")
    index_type: Annotated[IndexType, named(IndexType)] | None = Field(
        None, description="One index (older key); INVERTED, RANGE, TEXT and JSON are built."
    )
    index_types: tuple[Annotated[IndexType, named(IndexType)], ...] = Field(
        (), description="Indexes of the column; INVERTED, RANGE, TEXT and JSON are built."
    )
    indexes: dict[str, Any] | None = Field(
        None, description="Indexes by name with their settings; bloom, inverted, json, range and text are built."
    )
    compression_codec: Annotated[CompressionCodec, named(CompressionCodec)] | None = Field(
        None, description="Compression of a raw column."
    )
    timestamp_config: dict[str, Any] | None = Field(None, description="Accepted; there is no timestamp index.")
    properties: dict[str, Text] | None = Field(
        None, description="Settings as text; dictIdEncoding = AUTO, BYTE_ALIGNED or FIXED_BIT."
    )
    tier_overwrites: dict[str, Any] | None = Field(None, description="Not yet: other settings by storage tier.")

    @cached_property
    def all_index_types(self) -> frozenset[str]:
        """Indexes by all three spellings, in capitals."""
        named_ones = {str(index).upper() for index in self.index_types} | set(self.index_settings)
        return frozenset(named_ones | ({str(self.index_type).upper()} if self.index_type is not None else set()))

    @cached_property
    def index_settings(self) -> dict[str, dict[str, Any]]:
        """`indexes` without those that are disabled: name in capitals → settings."""
        named = {
            name.upper(): settings if isinstance(settings, dict) else {}
            for name, settings in (self.indexes or {}).items()
        }
        return {name: settings for name, settings in named.items() if str(settings.get("disabled")).lower() != "true"}

    def not_built(self, pointer: str) -> dict[str, Any]:
        """What the column asks for and nobody builds, including misspelt names: JSON pointer → value. `pointer`: this
        document's.
        """
        unbuilt: dict[str, Any] = {}
        if self.index_type is not None and self.index_type not in BUILT_INDEXES:
            unbuilt[f"{pointer}/indexType"] = self.index_type.value
        unbuilt |= {
            f"{pointer}/indexTypes/{i}": index.value
            for i, index in enumerate(self.index_types)
            if index not in BUILT_INDEXES
        }
        for name, settings in (self.indexes or {}).items():
            # Nobody needs to know that what is not built is disabled; but a column has its dictionary all the same.
            if name.upper() not in BUILT_INDEXES and (
                name.upper() in self.index_settings or name.upper() == "DICTIONARY"
            ):
                unbuilt |= flatten(settings, f"{pointer}/indexes/{name}")
        return unbuilt

    @cached_property
    def bloom_filter(self) -> BloomFilterConfig | None:
        """`indexes.bloom`; None if there is none. Raises ValidationError if a setting is wrong, which the checks of a
        table report.
        """
        settings = self.index_settings.get("BLOOM")
        return None if settings is None else BloomFilterConfig.model_validate(settings)

    @property
    def dict_id_encoding(self) -> DictIdEncoding:
        return DictIdEncoding((self.properties or {}).get("dictIdEncoding", DictIdEncoding.AUTO).upper())


def _one_or_list(value: Any) -> Any:
    """`sortedColumn` is a list of one in every document, and a plain text in some."""
    if isinstance(value, str):
        return (value,)
    if isinstance(value, list | tuple) and len(value) > 1:
        raise ValueError("one column: rows can be sorted by one only")
    return value


Columns = tuple[Text, ...]


class TableIndexConfig(Document):
    """Dictionaries, encodings and indexes of a table's columns."""

    @model_validator(mode="before")
    @classmethod
    def _null_is_absent(cls, value: Any) -> Any:
        # As the reference reads it; documents that other tools wrote have `"invertedIndexColumns": null`.
        return {key: item for key, item in value.items() if item is not None} if isinstance(value, dict) else value

    aggregate_metrics: Truth = Field(False, description="Not yet: sum metrics of equal dimensions while consuming.")
    segment_partition_config: SegmentPartitionConfig | None = Field(None, description="Partitioned columns.")
    enable_default_star_tree: Truth = Field(False, description="Build a star-tree by default rules.")
    null_handling_enabled: Truth = Field(False, description="Keep a null vector for each column.")
    no_dictionary_columns: Columns = Field((), description="Columns without dictionary: raw values.")
    no_dictionary_config: dict[str, Annotated[CompressionCodec, named(CompressionCodec)]] | None = Field(
        None, description="Raw column → compression."
    )
    inverted_index_columns: Columns = Field((), description="Columns with an inverted index.")
    sorted_column: Annotated[Columns, BeforeValidator(_one_or_list)] = Field(
        (), description="The column by which rows are sorted; at most one."
    )
    bloom_filter_columns: Columns = Field((), description="Columns with a Bloom filter.")
    bloom_filter_configs: dict[str, BloomFilterConfig] | None = Field(
        None, description="Column → size of its Bloom filter."
    )
    range_index_columns: Columns = Field((), description="Columns with a range index.")
    range_index_version: WholeNumber = Field(2, ge=1, le=2, description="Accepted; there is only one range index.")
    json_index_columns: Columns = Field((), description="JSON or STRING columns with a JSON index.")
    json_index_configs: dict[str, JsonIndexConfig] | None = Field(
        None, description="Column → settings of its JSON index."
    )
    on_heap_dictionary_columns: Columns = Field((), description="Accepted; dictionaries are always mapped.")
    var_length_dictionary_columns: Columns = Field(
        (), description="Accepted; text dictionaries are always of variable length."
    )
    auto_generated_inverted_index: Truth = Field(
        False, description="Accepted; only named columns have an inverted index."
    )
    create_inverted_index_during_segment_generation: Truth = Field(
        False, description="Accepted; indexes are built with the segment."
    )
    load_mode: Annotated[LoadMode, named(LoadMode)] | None = Field(
        None, description="HEAP: servers hold segments in memory; MMAP, the default: they map their files."
    )
    segment_format_version: Annotated[SegmentVersion, named(SegmentVersion)] | None = Field(
        None, description="Accepted; there is only one format."
    )
    column_min_max_value_generator_mode: Annotated[MinMaxMode, named(MinMaxMode)] | None = Field(
        None, description="Columns whose min and max are recorded: NONE, ALL, TIME or NON_METRIC."
    )
    star_tree_index_configs: tuple[StarTreeIndexConfig, ...] = Field((), description="Star-trees.")
    enable_dynamic_star_tree_creation: Truth = Field(False, description="Build star-trees on reload.")
    stream_configs: dict[str, Text] | None = Field(
        None,
        repr=False,
        description="Stream of a REALTIME table: keys and defaults in docs/streams.md. Those that change nothing, and "
        "all of an OFFLINE table, are among propertiesWithoutEffect.",
    )
    segment_name_generator_type: Text | None = Field(
        None, description="Accepted; the job names segments (segmentNameGeneratorSpec)."
    )
    column_major_segment_builder_enabled: Truth = Field(
        True, description="Accepted; segments are always built by column."
    )
    skip_segment_preprocess: Truth = Field(False, description="Accepted.")
    fst_type_for_fst_index: Text | None = Field(None, alias="fstTypeForFSTIndex", description="Accepted.")
    optimize_no_dict_stats_collection: Truth = Field(False, description="Accepted.")
    optimize_dictionary: Truth = Field(False, description="Accepted; only named columns have no dictionary.")
    optimize_dictionary_for_metrics: Truth = Field(False, description="Accepted.")
    optimize_dictionary_type: Truth = Field(False, description="Accepted.")
    no_dictionary_size_ratio_threshold: Number = Field(0.85, gt=0, description="Accepted.")
    multi_column_text_index_config: dict[str, Any] | None = Field(
        None, description="Accepted; text indexes are by column."
    )
    tier_overwrites: dict[str, Any] | None = Field(None, description="Not yet: other settings by storage tier.")
