"""Columns that stand in the names of a file's folders, as Hive and Spark write them:
`dt=2024-01-01/town=Bern/part-0.parquet`.

A folder's value fills the column of its name in every row of the file. Where the file has the column too, its values
must be the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pinotpy.config.date_time import DateTimeFormat, parse_format
from pinotpy.config.schema import Schema
from pinotpy.data_types import DataType
from pinotpy.ingest.casting import cast_values
from pinotpy.ingest.columns import single_values
from pinotpy.ingest.conversion import Converted
from pinotpy.ingest.dictionary_arrays import plain
from pinotpy.ingest.lists import cast_lists
from pinotpy.ingest.readers.spec import InputBatch, InputFile, ReaderColumn

NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"


def folder_texts(below: str) -> list[tuple[str, str | None]]:
    """Name and value of each folder `name=value` in a file's path below the input; None is null. Both are
    percent-decoded.
    """
    parts = (part.partition("=") for part in below.split("/")[:-1])
    return [
        (unquote(name), None if value in ("", NULL_FOLDER) else unquote(value))
        for name, equals, value in parts
        if name and equals
    ]


class FolderValues:
    """The folders of one file whose names are wanted columns.

    Raises:
        DecodeError: a value that its column cannot take, or two values for one column.
    """

    def __init__(
        self, file: InputFile, folders: Sequence[tuple[str, str | None]], wanted: Sequence[ReaderColumn], schema: Schema
    ) -> None:
        self._file, self._schema = file, schema
        self._columns = {column.name: column for column in wanted if column.name in dict(folders)}
        self._texts: Mapping[str, str | None] = {name: text for name, text in folders if name in self._columns}
        self._stored: dict[str, pa.Array] = {}
        for name, text in folders:
            if name not in self._columns:
                continue
            if text != self._texts[name]:
                raise file.broken(
                    f"two folders of its path give values, {text!r} and {self._texts[name]!r}", column=name
                )
            converted = self._in_storage_form(name, pa.array([text], pa.string()))
            if converted.bad:
                raise file.broken(
                    f"its folder '{name}={text}' has no value of the column: {converted.bad[0].cause}", column=name
                )
            self._stored[name] = plain(converted.array)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(self._columns)

    def filled(self, rows: InputBatch) -> InputBatch:
        """The rows with these columns, each as one value that all rows share.

        Raises DecodeError where a row of the file has another value. A row without a value has the folder's.
        """
        if not self._columns:
            return rows
        arrays = dict(zip(rows.batch.schema.names, rows.batch.columns, strict=True))
        for name in self._columns:
            if name in arrays:
                self._refuse_others(name, arrays[name], rows)
            arrays[name] = self._constant(name, len(rows.row_numbers))
        return InputBatch(pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)), rows.row_numbers)

    def _constant(self, name: str, num_rows: int) -> pa.Array:
        """A dictionary of one text: what it means is found once, whatever the column's type."""
        text = self._texts[name]
        if text is None:
            return pa.nulls(num_rows)
        return pa.DictionaryArray.from_arrays(pa.array(np.zeros(num_rows, np.int32)), pa.array([text], pa.string()))

    def _refuse_others(self, name: str, values: pa.Array, rows: InputBatch) -> None:
        converted = self._in_storage_form(name, values)
        stored, mine = plain(converted.array), self._stored[name]
        differs = np.zeros(len(stored), np.bool_)
        if pa.types.is_list(stored.type):
            differs |= np.asarray(pc.fill_null(pc.not_equal(pc.list_value_length(stored), 1), False))
            stored, mine = pc.list_element(stored, 0), pc.list_element(mine, 0)
        value = mine[0]
        differs |= np.asarray(pc.fill_null(pc.not_equal(stored, value), False) if value.is_valid else stored.is_valid())
        differs[[bad.row for bad in converted.bad]] = True
        if differs.any():
            row = int(np.argmax(differs))
            shown = f"{name}={NULL_FOLDER if self._texts[name] is None else self._texts[name]}"
            raise self._file.broken(
                f"the file has {values[row].as_py()!r}, its folder is '{shown}'",
                row=int(rows.row_numbers[row]),
                column=name,
            )

    def _in_storage_form(self, name: str, values: pa.Array) -> Converted:
        """As the pipeline reads the column; what only expressions name, as text."""
        incoming = next(
            (
                spec.incoming
                for spec in self._schema.field_specs.values()
                if spec.incoming is not None and spec.incoming.name == name
            ),
            None,
        )
        spec = self._schema.field_specs.get(name)
        data_type: DataType = DataType.STRING
        time_format: DateTimeFormat | None = None
        if incoming is not None:
            data_type, time_format = incoming.data_type, parse_format(incoming.format_text)
        elif spec is not None and not spec.single_value:
            return cast_lists(values, spec)
        elif spec is not None:
            data_type, time_format = spec.data_type, spec.date_time_format
        single = single_values(values, data_type)
        return cast_values(single.array, data_type, time_format).after(single)
