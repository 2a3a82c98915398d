"""Names of types that other systems have, and which type of a column is meant."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BeforeValidator

from pinotpy.config.misspelt_keys import meant_key
from pinotpy.data_types import DataType

_MEANT: Final[dict[DataType, str]] = {
    DataType.STRING: "VARCHAR CHAR CHARACTER NCHAR NVARCHAR VARCHAR2 CHARACTERVARYING TEXT TINYTEXT MEDIUMTEXT "
    "LONGTEXT CLOB STR UTF8 UUID ENUM KEYWORD SYMBOL FIXEDSTRING LOWCARDINALITY INET IP TIME INTERVAL",
    DataType.INT: "INTEGER INT16 INT32 INT2 INT4 UINT16 SMALLINT TINYINT MEDIUMINT SHORT BYTE SERIAL",
    DataType.LONG: "BIGINT INT64 UINT32 INT8 LONGINT BIGSERIAL HUGEINT UINT64 UBIGINT",
    DataType.FLOAT: "REAL FLOAT32 FLOAT4 SINGLE",
    DataType.DOUBLE: "DOUBLEPRECISION FLOAT64 FLOAT8 NUMBER",
    DataType.BIG_DECIMAL: "DECIMAL NUMERIC BIGDECIMAL BIGNUMERIC MONEY DEC",
    DataType.BOOLEAN: "BOOL BIT LOGICAL",
    DataType.TIMESTAMP: "DATE DATETIME DATETIME64 TIMESTAMPTZ TIMESTAMPWITHTIMEZONE TIMESTAMPWITHOUTTIMEZONE "
    "TIMESTAMPNTZ TIMESTAMPLTZ INSTANT",
    DataType.JSON: "JSONB OBJECT STRUCT RECORD ROW VARIANT TUPLE NESTED",
    DataType.BYTES: "BLOB BINARY VARBINARY BYTEA LONGBLOB RAW",
}
_TYPE_OF: Final = {name: data_type for data_type, names in _MEANT.items() for name in names.split()}
_PARAMETERS: Final = re.compile(r"\(.*\)\s*$", re.DOTALL)
_LIST: Final = re.compile(r"^(?:ARRAY|LIST)\s*[<(](.*)[>)]$|^(.*)\[\d*\]$", re.IGNORECASE | re.DOTALL)


def meant_type(name: str) -> DataType | None:
    """The type that another system's name stands for, `VARCHAR(20)` as well; or the one that was misspelt, or in other
    case. None: there is no telling.
    """
    plain = "".join(_PARAMETERS.sub("", name[:200]).split()).replace("_", "").upper()
    for data_type in DataType:
        if plain == data_type.value.replace("_", ""):
            return data_type
    if plain in _TYPE_OF:
        return _TYPE_OF[plain]
    near = meant_key(plain, [member.value for member in DataType])
    return DataType(near) if near is not None else None


def data_type_named() -> BeforeValidator:
    """Accept data types by their exact name, as Pinot does, and say which one is meant by another name."""

    def find(value: Any) -> Any:
        if isinstance(value, DataType):
            return value
        text = value.strip() if isinstance(value, str) else ""
        if text in DataType.__members__:
            return DataType(text)
        raise ValueError(f"{_suggestion(text)}one of " + ", ".join(member.value for member in DataType))

    return BeforeValidator(find)


def _suggestion(text: str) -> str:
    listed = _LIST.match(text)
    item = meant_type(next(part for part in listed.groups() if part is not None)) if listed is not None else None
    if item is not None:
        return f'{item} with "singleValueField": false for a list of them; '
    meant = meant_type(text)
    return f"{meant} for {text[:40]}; " if meant is not None else ""
