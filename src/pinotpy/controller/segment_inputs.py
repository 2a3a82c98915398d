"""The lists of segments' input files at the controller: checked, stored beside the archives, named by the records.

A list is stored before a record names it, and deleted after none does. A crash in between leaves an unnamed list of a
few kilobytes, which is deleted with the segment.
"""

from __future__ import annotations

import logging
import tempfile
from dataclasses import replace
from pathlib import Path

from pinotpy.cluster.segment_metadata import InputsRecord, SegmentZkMetadata
from pinotpy.controller.context import Controller
from pinotpy.errors import (
    AlreadyExistsError,
    NotFoundError,
    PinotError,
    PreconditionFailedError,
    SegmentCorruptError,
    StaleVersionError,
    UserError,
)
from pinotpy.segment.input_list import INPUT_LIST_MAX_BYTES, InputList

LOG = logging.getLogger(__name__)


def input_list(source: bytes | Path) -> InputList:
    """The list that an uploader sent. Raises UserError if it is invalid."""
    if isinstance(source, Path):
        with source.open("rb") as file:
            data = file.read(INPUT_LIST_MAX_BYTES + 1)
    else:
        data = source
    try:
        return InputList.from_bytes(data, "the list that came with the segment")
    except SegmentCorruptError as error:
        raise UserError(f"the list of input files cannot be taken: {error.message}") from error


def inputs_record(inputs: InputList) -> InputsRecord:
    """What the segment's record tells of a list."""
    return InputsRecord.of(inputs.digest, [file.uri for file in inputs.files])


def read_inputs(controller: Controller, table: str, segment: str) -> bytes:
    """The list of a segment. Raises NotFoundError: no such segment, it has no list, or another controller's store has
    it.
    """
    stored = controller.catalog.segment(table, segment)
    if stored is None:
        raise NotFoundError(f"Failed to find segment: {segment[:400]} in table: {table[:200]}")
    if stored.segment.inputs is None:
        raise NotFoundError(
            f"segment '{segment}' of table '{table}' has no list of input files: it was uploaded without one",
            segment=segment,
            table=table,
        )
    return controller.files.read_inputs(table, segment, stored.segment.inputs.sha256)


def set_inputs(controller: Controller, table: str, segment: str, inputs: InputList, if_match: str | None) -> None:
    """Give an existing segment a list of its input files, replacing the one that it may have.

    Raises:
        NotFoundError: there is no such segment.
        PreconditionFailedError: it has another CRC than `if_match`.
        AlreadyExistsError: an upload of it went through at the same time.
    """
    stored = controller.catalog.segment(table, segment)
    if stored is None:
        raise NotFoundError(f"Failed to find segment: {segment[:400]} in table: {table[:200]}")
    old = stored.segment
    if if_match is not None and str(old.crc) != if_match:
        raise PreconditionFailedError(
            f"For segment: {segment} of table: {table}, expected CRC: {if_match[:40]} does not match existing CRC: "
            f"{old.crc}"
        )
    with tempfile.TemporaryDirectory(prefix="inputs-", dir=controller.scratch_dir) as scratch:
        controller.files.put_inputs(table, segment, inputs, Path(scratch))
    try:
        controller.catalog.replace_segment(replace(old, inputs=inputs_record(inputs)), stored.version)
    except StaleVersionError as error:
        drop_unnamed_inputs(controller, table, segment, inputs.digest)
        raise AlreadyExistsError(
            f"an upload of segment '{segment}' of table '{table}' went through at the same time: look at it and try "
            "again"
        ) from error
    LOG.info("list of input files set table=%s segment=%s files=%d", table, segment, len(inputs.files))
    if old.inputs is not None:
        drop_unnamed_inputs(controller, table, segment, old.inputs.sha256)


def drop_unnamed_inputs(controller: Controller, table: str, segment: str, sha256: str) -> None:
    """Delete a list unless a record names it. Failures are logged, and the list stays."""
    try:
        if all(
            record.inputs is None or record.inputs.sha256 != sha256
            for record in controller.catalog.recorded_now(table, segment)
        ):
            controller.files.drop_inputs(table, segment, sha256)
    except PinotError as error:
        LOG.warning("list of input files not removed table=%s segment=%s reason=%s", table, segment, error.message)


def drop_replaced_inputs(
    controller: Controller, segment: SegmentZkMetadata, replaced: SegmentZkMetadata | None
) -> None:
    """After an upload: delete the list of the replaced segment."""
    if replaced is not None and replaced.inputs is not None and replaced.inputs != segment.inputs:
        drop_unnamed_inputs(controller, segment.table_name_with_type, segment.segment_name, replaced.inputs.sha256)
