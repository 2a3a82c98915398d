"""The properties of Pinot's older batch jobs (`hadoop jar … SegmentCreation job.properties`) → the ingestion job spec.

    path.to.input=/user/pinot/input/data          segment.table.name=flights
    path.to.output=/user/pinot/output             push.to.hosts=controller_host_0,controller_host_1
    path.to.schema=flights-schema.json            push.to.port=8888

Source: the manual ("Creating segments using hadoop") and Pinot's JobConfigConstants. A file may also be in the form of
the newer jobs: any key of the YAML spec as a dotted path (`pushJobSpec.pushAttempts=3`, `pinotpy.repartition=true`).
Keys of Hadoop itself (`mapreduce.…`, `fs.…`, …) are for Hadoop and are left alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any, Final

from pinotpy.config.document import describe, refuse
from pinotpy.config.properties import parse_properties
from pinotpy.errors import MISSING, Fault, InvalidConfigError
from pinotpy.ingest.jobs.spec import IngestionJobSpec, JobType
from pinotpy.ingest.jobs.templates import fill_templates

WHAT: Final = "job properties"

# Where each property goes in the spec.
PLACES: Final[dict[str, tuple[str, ...]]] = {
    "path.to.input": ("inputDirURI",),
    "path.to.output": ("outputDirURI",),
    "path.to.schema": ("tableSpec", "schemaURI"),
    "segment.table.name": ("tableSpec", "tableName"),
    "segment.name.generator.type": ("segmentNameGeneratorSpec", "type"),
    "record.reader.path": ("recordReaderSpec", "className"),
    "push.job.parallelism": ("pushJobSpec", "pushParallelism"),
    "push.job.retry": ("pushJobSpec", "pushAttempts"),
    "auth.token": ("authToken",),
}
# Settings of names, under their own keys.
_NAME_CONFIGS: Final = frozenset(
    [
        "segment.name",
        "segment.name.prefix",
        "segment.name.postfix",
        "exclude.sequence.id",
        "local.directory.sequence.id",
        "use.global.directory.sequence.id",
        "omit.timestamps.in.segment.name",
        "exclude.timestamps.in.segment.name",
        "append.uuid.to.segment.name",
        "file.path.pattern",
        "segment.name.template",
    ]
)
# Accepted where they ask for what is done anyway, refused where they ask for more. Value: (values that are fine, what
# is done).
_FIXED: Final[dict[str, tuple[tuple[str, ...], str]]] = {
    "create.tar.gz": (("true",), "true: segments are archives"),
    "use.relative.path": (("true",), "true: archives lie below the output as the input lies below its folder"),
    "enable.preprocessing": (
        ("false",),
        "false; ask for pinotpy.sortColumns, pinotpy.repartition and pinotpy.rowsPerSegment instead",
    ),
    "delete.extra.segments": (
        ("false",),
        "false; ask for pinotpy.consistentPush=TABLE instead, which replaces all segments at once",
    ),
    "enable.parallel.push": (("true", "false"), "true or false"),
}
# Read elsewhere, or of no meaning here.
_ACCEPTED: Final = frozenset(
    [
        "path.to.deps.jar",
        "preprocess.path.to.output",
        "table.config",
        "data.schema",
        "push.to.hosts",
        "push.to.port",
        "job.type",
        "job-spec-format",
    ]
)
_HADOOP: Final = (
    "hadoop.",
    "mapreduce.",
    "mapred.",
    "yarn.",
    "fs.",
    "dfs.",
    "io.",
    "ipc.",
    "spark.",
    "azkaban.",
    "tez.",
    "hive.",
)
_SPEC_ROOTS: Final = frozenset(field.alias or name for name, field in IngestionJobSpec.model_fields.items())
_ALL: Final = sorted(
    [*PLACES, *_NAME_CONFIGS, *_FIXED, *_ACCEPTED, "path.to.reader.config", "look.back.period.in.days"]
)


def read_properties_spec(
    text: str, values: Mapping[str, str] | None = None, *, job_type: JobType | None = None
) -> IngestionJobSpec:
    """A spec from the text of a properties file; `${name}` stands for `values[name]`. See `spec_from_properties`."""
    faults: list[Fault] = []
    filled = fill_templates(parse_properties(text, WHAT), values or {}, faults)
    refuse(WHAT, faults)
    return spec_from_properties(filled, job_type=job_type)


def spec_from_properties(properties: Mapping[str, str], *, job_type: JobType | None = None) -> IngestionJobSpec:
    """The spec that job properties ask for.

    Args:
        properties: key → text.
        job_type: what to do; default: `job.type`, else creation, with tar push where `push.to.hosts` stands.

    Raises:
        InvalidConfigError: with every fault, by the property's name; what the spec itself refuses is told with the
            spec's path.
    """
    faults: list[Fault] = []
    plain: dict[str, Any] = {}
    for key, value in properties.items():
        # A tab alone is a delimiter that was written as `\t`, and no blank at the end of a line.
        text = value.strip() or value
        if key in PLACES:
            _put(plain, PLACES[key], text, key, faults)
        elif key in _NAME_CONFIGS:
            _put(plain, ("segmentNameGeneratorSpec", "configs", key), text, key, faults)
        elif key in _FIXED:
            fine, done = _FIXED[key]
            if text.lower() not in fine:
                faults.append(Fault(key, describe(text), done))
        elif key.split(".", 1)[0] in _SPEC_ROOTS:
            _put_path(plain, key, text, faults)
        elif key in ("path.to.reader.config", "look.back.period.in.days"):
            allowed = (
                "recordReaderSpec.configs.<name>=<value>"
                if key == "path.to.reader.config"
                else "pinotpy.timeBucket, or another inputDirURI"
            )
            faults.append(Fault(key, describe(text), f"no such property: say what it holds by {allowed}"))
        elif key not in _ACCEPTED and not key.startswith(_HADOOP):
            near = get_close_matches(key, _ALL, 1, 0.75)
            hint = f"'{near[0]}' (did you mean that?)" if near else "one of " + ", ".join(_ALL)
            faults.append(Fault(key, "an unknown property", hint))
    controllers = _controllers(properties, faults)
    if controllers:
        _put(plain, ("pinotClusterSpecs",), [{"controllerURI": uri} for uri in controllers], "push.to.hosts", faults)
    if (
        job_type is None
        and "jobType" in plain
        and properties.get("job.type", plain["jobType"]).strip() != plain["jobType"]
    ):
        faults.append(Fault("job.type", describe(properties["job.type"]), "one property for jobType"))
    plain.setdefault("jobType", _job_type(properties, job_type, bool(controllers)))
    if properties.get("enable.parallel.push", "").strip().lower() == "false":
        _put(plain, ("pushJobSpec", "pushParallelism"), "1", "enable.parallel.push", faults)
    if faults:
        raise InvalidConfigError(f"{WHAT} are not valid:", tuple(faults))
    return IngestionJobSpec.from_json(plain)


def _controllers(properties: Mapping[str, str], faults: list[Fault]) -> list[str]:
    hosts = [host.strip() for host in properties.get("push.to.hosts", "").split(",") if host.strip()]
    port = properties.get("push.to.port", "").strip()
    if hosts and not (_is_number(port) and 0 < int(port) < 65536):
        faults.append(
            Fault("push.to.port", describe(port) if port else MISSING, "the port of the controllers in push.to.hosts")
        )
        return []
    return [f"{host}:{port}" if "://" in host else f"http://{host}:{port}" for host in hosts]


def _job_type(properties: Mapping[str, str], given: JobType | None, pushes: bool) -> str:
    if given is not None:
        return given.value
    named = properties.get("job.type", "").strip()
    return named or (JobType.SEGMENT_CREATION_AND_TAR_PUSH if pushes else JobType.SEGMENT_CREATION).value


def _put(plain: dict[str, Any], place: tuple[str, ...], value: Any, key: str, faults: list[Fault]) -> None:
    """What a property says, at its place of the spec; a fault where another property has said something else."""
    here: Any = plain
    for step in place[:-1]:
        here = here.setdefault(step, {})
        if not isinstance(here, dict):
            faults.append(Fault(key, "a key below a value", f"'{step}' with keys, or without"))
            return
    if here.setdefault(place[-1], value) != value:  # without the values: one may be a token
        faults.append(
            Fault(key, "another value than another property has for the same", f"one property for {'.'.join(place)}")
        )


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) < 7


# Sections whose own keys may hold dots.
_FREE: Final = ("configs", "extraConfigs", "sourceOptions")


def _put_path(plain: dict[str, Any], key: str, value: str, faults: list[Fault]) -> None:
    """A dotted path of the YAML spec; numbers are places in lists."""
    steps = key.split(".")
    for index, step in enumerate(steps):
        if step in _FREE and index + 1 < len(steps):
            steps = [*steps[: index + 1], ".".join(steps[index + 1 :])]
            break
    here: Any = plain
    for step, following in zip(steps, [*steps[1:], None], strict=True):
        new: Any = value if following is None else [] if _is_number(following) else {}
        if following is None and isinstance(here, dict):
            _put(here, (step,), value, key, faults)
            return
        if isinstance(here, list):
            if not _is_number(step) or int(step) > len(here):
                faults.append(Fault(key, f"'{step}'", f"the numbers of a list in order, here {len(here)}"))
                return
            if int(step) == len(here):
                here.append(new)
            here = here[int(step)]
        elif isinstance(here, dict):
            here = here.setdefault(step, new)
        else:
            faults.append(Fault(key, "a key below a value", "a key of the ingestion job spec"))
            return
