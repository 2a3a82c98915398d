"""Files that DuckDB reads rightly are read the same: equal numbers, texts, times, nulls, row by row.

DuckDB's own sniffer is the oracle; where it keeps text that stands for something (decimal commas, ja/nein), it is told.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest
from sniffed_files import built

FILES = {
    "plain": ("id,name,price,at\n1,Ann,1.5,2020-01-02 03:04:05\n2,,2,2020-01-03 00:00:00\n,Bob,,\n", ""),
    "semicolons": ("id;name;ok\n1;\"a;b\";true\n2;'x';false\n3;;\n", ""),
    "tabs": ("id\tname\n1\tAnn\n2\tBob, Jr.\n", ""),
    "quotes": ('id,text\n1,"say ""hi""\nand go"\n2,plain\n', ""),
    "large": ("a,b\n3000000000,1e300\n-3000000000,-0.25\n", ""),
    "dates": ("id,at\n1,31/12/2020\n2,01/02/2021\n", ""),
    "commas": ("id;price\n1;1,5\n2;-20,25\n", ", decimal_separator=','"),
    "crlf": ("a,b\r\n1,x\r\n2,y\r\n", ""),
    "cr": ("a,b\r1,x\r2,y\r", ""),
    "mark": ("\ufeffStraße,n\nGrün,1\n", ""),
    "pipes": ("a|b|c\n1|x,y|2.5\n2|z|-1e3\n", ""),
    "one": ("name\nAnn\nBob\n", ""),
    "wide": (",".join(f"c{n}" for n in range(2000)) + "\n" + ",".join(map(str, range(2000))) + "\n", ""),
    "nulls": ("a,b\n1,x\nNULL,\\N\nn/a,y\n", ", nullstr=['', 'NULL', '\\N', 'n/a']"),
    "points": ("id;at\n1;31.12.2020\n2;01.02.2021\n", ", dateformat='%d.%m.%Y'"),
    "times": ("id,at\n1,12/31/2020 13:05:07\n2,02/01/2021 00:00:00\n", ", timestampformat='%m/%d/%Y %H:%M:%S'"),
    "latin": ("id;name\n1;Köln\n2;Zürich\n", ", encoding='latin-1'"),
    "empty": ("a,b\n", ""),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_is_read_as_duckdb_reads_it(tmp_path: Path, name: str) -> None:
    content, told = FILES[name]
    encoded = content.encode("latin-1" if name == "latin" else "utf-8")
    file = built(tmp_path, encoded, f"{name}.csv")
    columns = duckdb.sql(f"SELECT * FROM read_csv('{tmp_path / f'{name}.csv'}'{told})")
    expected = [dict(zip(columns.columns, map(_plain, row), strict=True)) for row in columns.fetchall()]
    assert file.rows == expected


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.replace(tzinfo=UTC)
    if hasattr(value, "year"):  # a date
        return datetime(value.year, value.month, value.day, tzinfo=UTC)
    return value
