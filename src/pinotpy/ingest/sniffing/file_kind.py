"""Format and compression of a file: by its first bytes, then by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from pinotpy.errors import UserError
from pinotpy.ingest.readers.catalog import format_from_text, format_of
from pinotpy.ingest.readers.spec import FileFormat, InputFile
from pinotpy.ingest.sniffing.guess import Guess, Wishes

_MAGIC: Final = ((b"PAR1", FileFormat.PARQUET), (b"Obj\x01", FileFormat.AVRO), (b"ORC", FileFormat.ORC))
_PACKED: Final = ((b"\x1f\x8b", "gzip"), (b"BZh", "bzip2"), (b"\x28\xb5\x2f\xfd", "zstd"))
# What is often met, and read by nothing here.
_OTHERS: Final = (
    (b"PK\x03\x04", "a ZIP archive (or an Excel workbook)", "unpack it, or save the sheet as CSV"),
    (b"\xfd7zXZ", "packed by xz", "unpack it by unxz"),
    (b"ARROW1", "an Arrow file", "write it as Parquet"),
    (b"SQLite format 3", "an SQLite database", "export the table as CSV"),
    (b"%PDF", "a PDF document", "export its table as CSV"),
    (b"\x89PNG", "a PNG image", "name a file of rows"),
    (b"\xff\xd8\xff", "a JPEG image", "name a file of rows"),
    (b"\x7fELF", "a program", "name a file of rows"),
)
# Pages and documents of marks: what begins with these, or ends with the mark that its first one opened.
_MARKED_UP: Final = re.compile(rb"(?i)<(\?xml|!doctype|html|head|body)[\s>]|<!--")
_FIRST_MARK: Final = re.compile(rb"<([a-zA-Z_][\w:.-]*)(\s[^<>]*)?>")
# No text has these but by accident; \x01 and \x1f separate fields, \x1b begins a change of the alphabet.
_NO_TEXT: Final = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x01\x1b\x1c\x1d\x1e\x1f"})
_NO_TEXT_SHARE_MAX: Final = 0.02


@dataclass(frozen=True, slots=True)
class FileKind:
    """The format, and the first bytes of the content, unpacked; `is_whole`: there is nothing behind them."""

    file_format: FileFormat
    head: bytes
    is_whole: bool
    guesses: tuple[Guess, ...]


def sniff_kind(file: InputFile, wishes: Wishes, head_bytes: int) -> FileKind:
    """Format and compression.

    Raises:
        UserError: the file is of none that can be read, or is empty.
    """
    with file.path.open("rb") as raw:
        start = raw.read(16)
    if not start:
        raise UserError(f"'{file.name}' is empty: expected rows, or at least a header")
    for mark, what, remedy in _OTHERS:
        if start.startswith(mark):
            raise UserError(f"'{file.name}' is {what}, expected {', '.join(FileFormat)}: {remedy}")
    packing = next((name for mark, name in _PACKED if start.startswith(mark)), None)
    with file.open() as stream:
        head = b""
        while len(head) <= head_bytes and (piece := stream.read(head_bytes + 1 - len(head))):
            head += piece
    is_whole, head = len(head) <= head_bytes, head[:head_bytes]
    by_name = format_of(file.path)
    if wishes.file_format is not None:
        file_format, confidence, why = format_from_text(wishes.file_format), 1.0, ""
    else:
        file_format, confidence, why = _by_content(head, by_name)
    if file_format in (FileFormat.CSV, FileFormat.TSV) and wishes.encoding is None and _is_binary(head):
        raise UserError(
            f"'{file.name}' holds bytes that no text has, expected {', '.join(FileFormat)}: name a file of rows, or "
            "its --encoding if it is text"
        )
    if wishes.file_format is None and _is_marked_up(head, is_whole=is_whole):
        raise UserError(
            f"'{file.name}' is an HTML page or an XML document, expected {', '.join(FileFormat)}: a download that "
            "failed leaves such a page; --format csv reads it as CSV anyway"
        )
    if by_name not in (None, file_format) and not why:
        why = f"its name says {by_name}, its content does not"
    guesses = [
        Guess(
            "format",
            str(file_format),
            confidence,
            "--format json" if file_format is FileFormat.CSV else "--format csv",
            why,
        )
    ]
    if packing is not None:
        guesses.append(Guess("compression", packing, 1.0, "none: it is told by the first bytes"))
    return FileKind(file_format, head, is_whole, tuple(guesses))


def _is_binary(head: bytes) -> bool:
    """Whether bytes are hardly a text of any encoding that is guessed; UTF-16 has a NUL in every other byte."""
    head = head[:4096]
    if head.startswith((b"\xff\xfe", b"\xfe\xff")) or head[:1] == b"\x00" or head[1:2] == b"\x00":
        return False
    return len(head) - len(head.translate(None, _NO_TEXT)) > _NO_TEXT_SHARE_MAX * len(head) + 1


def _is_marked_up(head: bytes, *, is_whole: bool) -> bool:
    text = head.removeprefix(b"\xef\xbb\xbf").strip()
    if text[:2] in (b"\xff\xfe", b"\xfe\xff"):
        text = head.decode("utf-16", "ignore").strip().encode()
    first = _FIRST_MARK.match(text)
    return _MARKED_UP.match(text) is not None or (
        first is not None and is_whole and text.endswith(b"</" + first[1] + b">")
    )


def _by_content(head: bytes, by_name: FileFormat | None) -> tuple[FileFormat, float, str]:
    for mark, file_format in _MAGIC:
        if head.startswith(mark):
            return file_format, 1.0, ""
    text = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if re.match(rb'\{\s*(\}|")|\[\s*(\{|\])', text):
        return FileFormat.JSON, 1.0, ""
    if by_name in (FileFormat.CSV, FileFormat.TSV):
        return by_name, 1.0, ""
    if by_name is not None:
        return by_name, 0.6, "by its name; the content does not show it"
    return FileFormat.CSV, 0.7, "its content is text of no other format"
