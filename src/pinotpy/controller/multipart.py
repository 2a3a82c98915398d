"""Receiving multipart bodies: every part goes straight to a file, nothing is held in memory, and a byte limit ends it.

Starlette's own form parser spools whole bodies before a handler sees them and has no limit on file parts; uploads are
the largest bodies that a controller takes, so they are parsed as they arrive.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header

from pinotpy.errors import PayloadTooLargeError, UserError

BOUNDARY_MAX_BYTES = 256  # RFC 2046 allows 70, the parser takes this
WRITE_BLOCK_BYTES = (
    1 << 20
)  # handed to a thread in blocks of this size, so that the event loop never waits for the disk


@dataclass(frozen=True, slots=True)
class ReceivedPart:
    """One part of a multipart body, lying in `path`."""

    name: str
    filename: str
    path: Path
    size_bytes: int


class _Sink:
    """Parser callbacks: they only collect; `write` writes what was taken, from a thread. Used by one request."""

    def __init__(self, folder: Path, parts_max: int) -> None:
        self.folder, self.parts_max = folder, parts_max
        self.parts: list[ReceivedPart] = []
        self.ended = False
        self._header_name, self._header_value = bytearray(), bytearray()
        self._disposition = b""
        self._blocks: list[tuple[int, bytes]] = []
        self.pending_bytes = 0
        self._files: dict[int, BinaryIO] = {}
        self._sizes: list[int] = []
        self._names: list[tuple[str, str]] = []

    def on_part_begin(self) -> None:
        if len(self._sizes) == self.parts_max:
            raise UserError(
                f"expected a multipart body with {self.parts_max} file part{'s' if self.parts_max > 1 else ''}, found "
                "more"
            )
        self._sizes.append(0)
        self._disposition = b""

    def on_header_begin(self) -> None:
        self._header_name.clear()
        self._header_value.clear()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def on_header_end(self) -> None:
        if bytes(self._header_name).lower() == b"content-disposition":
            self._disposition = bytes(self._header_value)

    def on_headers_finished(self) -> None:
        _, options = parse_options_header(self._disposition)
        self._names.append(
            (
                options.get(b"name", b"").decode("utf-8", "replace"),
                options.get(b"filename", b"").decode("utf-8", "replace"),
            )
        )

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._blocks.append((len(self._sizes) - 1, data[start:end]))
        self._sizes[-1] += end - start
        self.pending_bytes += end - start

    def on_end(self) -> None:
        self.ended = True

    def take(self) -> list[tuple[int, bytes]]:
        """What waits to be written, by part."""
        blocks, self._blocks, self.pending_bytes = self._blocks, [], 0
        return blocks

    def write(self, blocks: list[tuple[int, bytes]]) -> None:
        for index, block in blocks:
            if index not in self._files:
                self._files[index] = (self.folder / f"part-{index}").open("xb")
            self._files[index].write(block)

    def finish(self) -> list[ReceivedPart]:
        self.write(self.take())
        for index in range(len(self._sizes)):
            if index not in self._files:  # a part without a byte
                self._files[index] = (self.folder / f"part-{index}").open("xb")
        self.close()
        names = self._names
        return [
            ReceivedPart(names[i][0], names[i][1], self.folder / f"part-{i}", size)
            for i, size in enumerate(self._sizes)
        ]

    def close(self) -> None:
        for file in self._files.values():
            file.close()


async def receive_parts(
    stream: AsyncIterator[bytes], content_type: str, folder: Path, *, bytes_max: int, parts_max: int = 1
) -> list[ReceivedPart]:
    """Write the parts of a multipart/form-data body to files `part-0`, `part-1`, … in `folder`.

    Args:
        stream: the body as it arrives.
        content_type: the request's Content-Type with its boundary.
        folder: an empty directory that the caller removes, whatever happens.
        bytes_max: limit on the whole body.

    Raises:
        PayloadTooLargeError: the body is longer than `bytes_max`; nothing more is read.
        UserError: no multipart body, a broken or truncated one, or more than `parts_max` parts.
    """
    media_type, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if media_type != b"multipart/form-data" or not 0 < len(boundary) <= BOUNDARY_MAX_BYTES:
        raise UserError(
            f"expected a multipart/form-data body with a boundary of 1 to {BOUNDARY_MAX_BYTES} characters, found "
            f"content type '{content_type[:200]}'"
        )
    sink = _Sink(folder, parts_max)
    parser = MultipartParser(
        boundary,
        {
            "on_part_begin": sink.on_part_begin,
            "on_part_data": sink.on_part_data,
            "on_header_begin": sink.on_header_begin,
            "on_header_field": sink.on_header_field,
            "on_header_value": sink.on_header_value,
            "on_header_end": sink.on_header_end,
            "on_headers_finished": sink.on_headers_finished,
            "on_end": sink.on_end,
        },
    )
    received = 0
    loop = asyncio.get_running_loop()
    writing: asyncio.Future[None] | None = None
    try:
        async for chunk in stream:
            received += len(chunk)
            if received > bytes_max:
                raise PayloadTooLargeError(
                    f"the upload is longer than {bytes_max} bytes (controller.segment.upload.maxSizeBytes)",
                    limit_bytes=bytes_max,
                )
            parser.write(chunk)
            if sink.pending_bytes >= WRITE_BLOCK_BYTES:
                # One block goes to the disk while the next one comes.
                if writing is not None:
                    await asyncio.shield(writing)
                writing = loop.run_in_executor(None, sink.write, sink.take())
        if not sink.ended:
            raise UserError("the multipart body ends before its closing boundary: it was cut on its way")
        if writing is not None:
            await asyncio.shield(writing)
        return await asyncio.to_thread(sink.finish)
    except MultipartParseError as error:
        raise UserError(f"the multipart body cannot be read: {error}") from error
    finally:
        if writing is not None:
            await _ended(writing)
        sink.close()


async def _ended(writing: asyncio.Future[None]) -> None:
    """Wait for a write whatever becomes of the request: its thread has the files in hand. Its error, if any, was raised
    where it was awaited, or comes after another one.
    """
    while not writing.done():
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.wait([writing])
    if not writing.cancelled():
        writing.exception()
