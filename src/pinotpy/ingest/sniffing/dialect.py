"""Which CSV is it? Encoding, delimiter, quotes, comment marker, and whether the first row is a header.

Looked at are the first bytes of the file, with Python's csv module; the file itself is read by the CSV reader.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from pinotpy.data_types import DataType
from pinotpy.errors import UserError
from pinotpy.ingest.sniffing.guess import NULL_TEXTS, Guess, Wishes
from pinotpy.ingest.sniffing.texts import Marks, guess_text

HEAD_BYTES: Final = 1 << 18
_RECORDS: Final = 400
_DELIMITERS: Final = ("\t", ";", "|", ",", "^", "\x01", ":")
# The reader's settings have no word for "no quotes": a mark that no text has.
NO_QUOTE: Final = "\x1f"
# What some spreadsheets write first.
_DECLARED_DELIMITER: Final = re.compile(r'(?i)"?sep=(?P<mark>[\t;|,^:])"?(?=\n|$)')
_SHOWN: Final = {"\t": "tab", "\x01": "\\x01"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a CSV file is written.

    Attributes:
        fields: of the header where there is one, else as many empty texts as there are columns.
        records: the first rows behind it. skip_rows: lines before the header, or the first row.
        trims: whether blanks around fields are none of theirs.
    """

    encoding: str | None
    delimiter: str
    quote: str
    escape: str | None
    comment: str | None
    has_header: bool
    fields: tuple[str, ...]
    records: tuple[tuple[str, ...], ...] = ()
    guesses: tuple[Guess, ...] = field(default=())
    skip_rows: int = 0
    trims: bool = False

    def reader_config(self) -> dict[str, Any]:
        """Settings of the CSV reader, without the names of columns."""
        settings = {
            "delimiter": self.delimiter,
            "quoteCharacter": self.quote if self.quote != '"' else None,
            "escapeCharacter": self.escape,
            "commentMarker": self.comment,
            "encoding": self.encoding,
            "skipRows": self.skip_rows or None,
            "ignoreSurroundingSpaces": self.trims or None,
            "skipRepeatedHeader": True if self.has_header else None,
        }
        return {name: value for name, value in settings.items() if value is not None}


def sniff_dialect(head: bytes, is_whole: bool, wishes: Wishes, *, trims: bool = False) -> Dialect | None:
    """The dialect of a file that begins with `head`; None: it has no row at all.

    Args:
        is_whole: whether there is nothing behind it. trims: whether blanks stand before quotes further down.
    """
    encoding, sure_encoding = _encoding(head, is_whole, wishes)
    text = head.decode(encoding or "utf-8", "replace").removeprefix("\ufeff")
    # CR alone ends lines, too.
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not is_whole and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    if not text.strip("\n"):
        return None
    skip_rows, why_skipped, sure_skipped = wishes.skip_rows or 0, "", 1.0
    declared = _DECLARED_DELIMITER.match(text) if wishes.skip_rows is None else None
    if declared is not None:
        skip_rows, why_skipped = 1, f"{declared[0]!r} is no row: it says what stands between fields"
        wishes = replace(wishes, delimiter=wishes.delimiter or declared["mark"])
    whole_text, text = text, _without_lines(text, skip_rows)
    comment = _comment(text) if wishes.comment is None else wishes.comment or None
    if wishes.skip_rows is None and comment is None and not skip_rows:
        skip_rows = _num_before_header(text, wishes)
        if skip_rows:
            text, sure_skipped = _without_lines(text, skip_rows), 0.8
            why_skipped = (
                f"before the header; the first one is {whole_text.lstrip(chr(10)).partition(chr(10))[0][:40]!r}"
            )
    if not text.strip("\n"):
        return None
    num_comments = 0
    if comment is not None:
        lines = text.split("\n")
        text = "\n".join(line for line in lines if not line.startswith(comment))
        num_comments = sum(line.startswith(comment) for line in lines)
    quote = _quote(text) if wishes.quote is None else wishes.quote or NO_QUOTE
    escape = _escape(text, quote) if wishes.escape is None else wishes.escape or None
    delimiter, share = (wishes.delimiter, 1.0) if wishes.delimiter else _delimiter(text, quote, escape)
    records = [record for record in _records(text, delimiter, quote, escape) if record]
    if quote != NO_QUOTE and (trims or _has_blanks_before_quotes(text, quote)):
        trims_as, share_trimmed = (
            (wishes.delimiter, 1.0) if wishes.delimiter else _delimiter(text, quote, escape, trims=True)
        )
        trimmed = [record for record in _records(text, trims_as, quote, escape, trims=True) if record]
        trims = trims or _share_of_equal_width(trimmed) >= _share_of_equal_width(records)
        if trims:
            delimiter, share, records = trims_as, share_trimmed, trimmed
    if not records:
        return None
    width = Counter(len(record) for record in records).most_common(1)[0][0]
    has_header, header_confidence, why = _header(records, width, wishes, delimiter)
    fields = tuple(name.strip() for name in records[0]) if has_header else ("",) * width
    rows = tuple(tuple(record) for record in (records[1:] if has_header else records))
    guesses = [
        Guess("delimiter", _SHOWN.get(delimiter, repr(delimiter)), share,
              "--delimiter ','" if delimiter == ";" else "--delimiter ';'",
              "" if share == 1 else "not every row has equally many fields"),
        Guess("quote", "none" if quote == NO_QUOTE else quote, 1.0,
              "--quote none" if quote == '"' else "--quote '\"'"),
        Guess("header", "yes" if has_header else "no", header_confidence,
              "--no-header" if has_header else "--header", why),
        Guess("encoding", encoding or "utf-8", sure_encoding,
              "--encoding windows-1252" if encoding != "windows-1252" else "--encoding iso-8859-15",
              "" if sure_encoding == 1 else "it is not UTF-8, and has no mark that says what it is"),
    ]  # fmt: skip
    if skip_rows or wishes.skip_rows is not None:
        lines_left_out = f"{skip_rows} line{'s' * (skip_rows != 1)}"
        guesses.append(Guess("left out", lines_left_out, sure_skipped, "--skip-rows 0", why_skipped))
    if trims:
        guesses.append(Guess("blanks", "left out around fields", 0.9, "--quote none", "blanks stand before quotes"))
    if comment is not None or wishes.comment is not None:
        why = f"{num_comments:,} lines that begin so are left out of the first rows" if comment is not None else ""
        sure = 0.8 if wishes.comment is None else 1.0
        guesses.append(Guess("comment", comment or "none", sure, "--comment none", why))
    if escape is not None or wishes.escape is not None:
        why = f"{escape}{quote} stands in the text, {quote * 2} does not" if wishes.escape is None else ""
        guesses.append(Guess("escape", escape or "none", 0.8 if why else 1.0, "--escape none", why))
    return Dialect(encoding, delimiter, quote, escape, comment, has_header, fields, rows, tuple(guesses), skip_rows,
                   trims and quote != NO_QUOTE)  # fmt: skip


def _encoding(head: bytes, is_whole: bool, wishes: Wishes) -> tuple[str | None, float]:
    """(the encoding, None for UTF-8; how sure that is)."""
    if wishes.encoding is not None:
        try:
            name = codecs.lookup(wishes.encoding).name
        except LookupError:
            raise UserError(
                f"--encoding is '{wishes.encoding}', expected one such as utf-8, utf-16 or windows-1252"
            ) from None
        return (None if name == "utf-8" else wishes.encoding), 1.0
    if head.startswith(codecs.BOM_UTF8):
        return None, 1.0
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16", 1.0
    if head[1:2] == b"\x00" or head[:1] == b"\x00":
        return ("utf-16-le" if head[1:2] == b"\x00" else "utf-16-be"), 0.9
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, is_whole)
    except UnicodeDecodeError:
        return "windows-1252", 0.7
    return None, 1.0


def _without_lines(text: str, count: int) -> str:
    return text.split("\n", count)[count] if text.count("\n") >= count else ""


def _num_before_header(text: str, wishes: Wishes) -> int:
    """How many lines stand before a table: titles, of one field each, or of fewer than the table has where a blank line
    follows. From the header on all records must have equally many fields, and the header must be one beyond doubt.
    """
    quote = _quote(text) if wishes.quote is None else wishes.quote or NO_QUOTE
    escape = _escape(text, quote) if wishes.escape is None else wishes.escape or None
    for delimiter in (wishes.delimiter,) if wishes.delimiter else _DELIMITERS:
        reader = csv.reader(io.StringIO(text), delimiter=delimiter, quotechar=quote, escapechar=escape, strict=False)
        records: list[list[str]] = []
        begins: list[int] = []  # lines before each record
        try:
            while len(records) < _RECORDS:
                begins.append(reader.line_num)
                records.append(next(reader))
        except (csv.Error, StopIteration):
            pass
        while records and not records[-1]:
            records.pop()
        width = len(records[-1]) if records else 0
        first = len(records)
        while first and len(records[first - 1]) == width:
            first -= 1
        table, before = records[first:], [record for record in records[:first] if record]
        if width < 2 or len(table) < 2 or not before or wishes.header is False:
            continue
        follows_blank = not records[first - 1]
        if max(map(len, before)) >= (width if follows_blank else 2) or any(not name.strip() for name in table[0]):
            continue
        is_header, sure, _ = _header(table, width, wishes, delimiter)
        if is_header and not any(map(_is_value, table[0])) and (follows_blank or sure == 1):
            return begins[first]
    return 0


def _comment(text: str) -> str | None:
    """`#` where the file begins with such lines and goes on with others that have as many fields as one another."""
    lines = text.split("\n", 50)
    marked = [line.startswith("#") for line in lines if line]
    if not marked or not marked[0] or all(marked):
        return None
    first = marked.index(False)
    header, *rest = [line for line in lines if line][first - 1 :]
    # '#id,name' over '1,a' is a header.
    is_header = any(header.count(mark) and header.count(mark) == rest[0].count(mark) for mark in _DELIMITERS)
    return None if is_header and first == 1 else "#"


def _quote(text: str) -> str:
    double = len(re.findall(r'(?:^|[,;\t|])"|"(?:$|[,;\t|])', text, re.MULTILINE))
    single = len(re.findall(r"(?:^|[,;\t|])'[^'\n]*'(?=$|[,;\t|])", text, re.MULTILINE))
    return "'" if single > 1 and not double else '"'


def _escape(text: str, quote: str) -> str | None:
    doubled = quote * 2 in text.replace(quote * 2 + "\n", "")
    return "\\" if "\\" + quote in text and not doubled else None


def _has_blanks_before_quotes(text: str, quote: str) -> bool:
    """Whether fields begin with blanks and a quote, and all of those end with one."""
    mark = re.escape(quote)
    begin = rf"[,;|^:\x01\t][ \t]+{mark}"
    whole = rf"{begin}(?:[^{mark}]|{mark}{mark})*{mark}[ \t]*(?=[,;|^:\x01\t\n]|$)"
    others, count = re.subn(whole, "", text)
    return count > 0 and re.search(begin, others) is None


def fits_without_blanks(row: str, delimiter: str, quote: str, width: int) -> bool:
    """Whether a row has so many fields where blanks before quotes are none of theirs.

    Args:
        row: as the reader tells it: each field that it found in quotes, those of the text doubled.
    """
    fields = next(iter(_records(row, delimiter, quote, None)), [])
    # What holds a delimiter stood in quotes that the reader saw; all else may be a part of what it did not see.
    doubled = {field: f"{quote}{field.replace(quote, quote * 2)}{quote}" for field in fields if delimiter in field}
    text = delimiter.join(doubled.get(field, field) for field in fields)
    if not _has_blanks_before_quotes(text, quote):
        return False
    return [len(record) for record in _records(text, delimiter, quote, None, trims=True)] == [width]


def _share_of_equal_width(records: list[list[str]]) -> float:
    return Counter(map(len, records)).most_common(1)[0][1] / len(records) if records else 0.0


def _records(text: str, delimiter: str, quote: str, escape: str | None, *, trims: bool = False) -> list[list[str]]:
    reader = csv.reader(
        io.StringIO(text),
        delimiter=delimiter,
        quotechar=quote,
        escapechar=escape,
        skipinitialspace=trims,
        strict=False,
    )
    records: list[list[str]] = []
    try:
        for record in reader:
            records.append(record)
            if len(records) >= _RECORDS:
                break
    except csv.Error:
        pass
    return records


def _delimiter(text: str, quote: str, escape: str | None, *, trims: bool = False) -> tuple[str, float]:
    """The one that splits most rows into equally many fields, and the share of rows that it does so to."""
    # One column: a mark that the text does not have.
    best, best_score = (next((mark for mark in (",", ";", "\t", "|", "^", "\x01") if mark not in text), ","), 1.0), 0.0
    for rank, delimiter in enumerate(_DELIMITERS):
        records = [record for record in _records(text, delimiter, quote, escape, trims=trims) if record]
        counts = Counter(len(record) for record in records)
        if not counts:
            continue
        width, rows = counts.most_common(1)[0]
        share = rows / len(records)
        # The header has as many fields as the rows have.
        agrees = len(records[0]) == width
        if width < 2 or share < 0.5 or (delimiter == ":" and not re.match(r"[A-Za-z_ ]+:[A-Za-z_ ]", text)):
            continue
        # A text may hold commas, rarely as many in every row; other marks are hardly ever in texts.
        score = share + 0.5 * agrees - 0.02 * rank
        if score > best_score:
            best, best_score = (delimiter, share), score
    return best


def _header(records: list[list[str]], width: int, wishes: Wishes, delimiter: str) -> tuple[bool, float, str]:
    """(whether the first row is a header, how sure that is, why)."""
    if wishes.header is not None:
        return wishes.header, 1.0, ""
    # A header that comes again further down is no row.
    first, rest = records[0], [record for record in records[1:] if len(record) == width and record != records[0]]
    are_values = [_is_value(text) for text in first]
    if any(are_values):
        # A year may stand in a header, among names, over rows of another kind.
        names = [text for text, is_value in zip(first, are_values, strict=True) if text.strip() and not is_value]
        if len(names) < len(first) / 2 or not rest:
            return False, 0.9, "the first row holds values"
    if not rest:
        return True, 0.6, "there is only this row"
    marks = Marks(comma_likely=delimiter != ",")
    typed = mismatched = 0
    for number in range(min(width, len(first))):
        values = [record[number].strip() for record in rest]
        values = [value for value in values if value and value not in NULL_TEXTS]
        guess = guess_text(pa.array(values, pa.string()).unique(), marks)
        if guess.data_type is not DataType.STRING:
            typed += 1
            mismatched += (
                not are_values[number]
                and guess_text(pa.array([*values, first[number].strip()], pa.string()).unique(), marks).data_type
                is not guess.data_type
            )
    if typed:
        return (True, 1.0, "") if mismatched else (False, 0.8, "the first row has values of the same types")
    names = [text.strip() for text in first]
    named = [(number, name) for number, name in enumerate(names[:width]) if name]
    recur = any(name in {record[number].strip() for record in rest} for number, name in named)
    if len(set(names)) == len(names) and all(names) and not recur:
        return True, 0.7, "all columns are text: the first row is taken for names"
    return (
        (True, 0.6, "the first row has no values") if not recur else (False, 0.6, "its texts are values further down")
    )


def _is_value(text: str) -> bool:
    """Whether a text can hardly be a name: a number, a date."""
    text = text.strip()
    if not text or not re.search(r"\d", text):
        return False
    return guess_text(pa.array([text]), Marks()).data_type in (
        DataType.INT, DataType.LONG, DataType.DOUBLE, DataType.TIMESTAMP,
    ) or bool(re.fullmatch(r"[+-]?0\d+", text))  # fmt: skip
