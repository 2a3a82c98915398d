"""Reads a job's spec from a path or URI: YAML, JSON or properties, by file extension."""

from __future__ import annotations

from collections.abc import Mapping

from pinotpy.errors import UserError
from pinotpy.fs.file_systems import file_system_for
from pinotpy.fs.uris import file_name, masked
from pinotpy.ingest.jobs.properties_spec import read_properties_spec
from pinotpy.ingest.jobs.spec import IngestionJobSpec, read_job_spec
from pinotpy.ingest.jobs.yaml_text import TEXT_BYTES_MAX


def read_spec_file(uri: str, values: Mapping[str, str]) -> IngestionJobSpec:
    """The spec at a path or URI; `${name}` stands for `values[name]`. Raises as `read_text`, and InvalidConfigError
    with every fault.
    """
    read = read_properties_spec if file_name(uri).endswith(".properties") else read_job_spec
    return read(read_text(uri), values)


def read_text(uri: str) -> str:
    """A text of any file system that needs no settings; the settings of the others stand in the spec itself.

    Raises:
        NotFoundError: it is not there. UserError: it is too long for a spec, or not UTF-8.
    """
    with file_system_for(uri).open(uri) as stream:
        text = stream.read(TEXT_BYTES_MAX + 1)
    if len(text) > TEXT_BYTES_MAX:
        raise UserError(f"'{masked(uri)}' has more than {TEXT_BYTES_MAX} bytes: expected a job spec or properties")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UserError(f"'{masked(uri)}' is no UTF-8 text: byte 0x{text[error.start]:02x} at {error.start}") from error
