"""How a process finds its settings: default < config file < environment < command line, each value checked and its
source kept.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PrivateAttr, ValidationError
from pydantic.fields import FieldInfo

from pinotpy.config.document import Truth, WholeNumber, describe, fault_allowed, parse_json
from pinotpy.config.properties import parse_properties
from pinotpy.config.serving import bytes_from_text
from pinotpy.errors import Fault, InvalidConfigError

ENVIRONMENT_PREFIX = "PINOTPY_"
CONFIG_FILE_BYTES_MAX = 1 << 20
MASK = "*****"
# Of keys below a prefix: what may be shown are the others, such as region or endpoint.
_SECRET_KEY = re.compile(r"key|secret|token|password|credential|authorization|sas|connectionstring", re.IGNORECASE)


def _size(value: Any) -> Any:
    if isinstance(value, str) and not value.strip().isdigit():
        return bytes_from_text(value)
    if isinstance(value, bool):
        raise ValueError("a number of bytes, or a size such as 512M")
    return value


def _names(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(name for item in value.split(",") if (name := item.strip()))
    return value


def _texts(value: Any) -> Any:
    if isinstance(value, str):
        value = parse_json(value, "the variable") if value.strip() else {}
    if not isinstance(value, dict):
        raise ValueError("an object of keys and texts")
    return {str(key): str(text).lower() if isinstance(text, bool) else str(text) for key, text in value.items()}


Size = Annotated[WholeNumber, BeforeValidator(_size)]
Names = Annotated[tuple[str, ...], BeforeValidator(_names)]  # a list in JSON, by commas in text
Texts = Annotated[dict[str, str], BeforeValidator(_texts)]  # keys below a prefix
Flag = Truth


def setting(default: Any, *keys: str, about: str, unit: str = "", secret: bool = False, **bounds: Any) -> Any:
    """A field of a settings model.

    Args:
        keys: dotted keys of config files; the first is shown, the others are older names.
        about: one sentence for documents and --help.
        unit: of a number (ms, bytes, days …).
        secret: masked in logs and in /debug/config.
        bounds: ge, le, gt, lt, min_length.
    """
    return Field(
        default, description=about, json_schema_extra={"keys": list(keys), "unit": unit, "secret": secret}, **bounds
    )


def settings_below(*prefixes: str, about: str) -> Any:
    """A field that takes every key below its prefixes, `<prefix>.<rest>`, as rest → text; an environment variable has a
    JSON object.

    Values are masked where they are shown, but for keys that can hold no secret.
    """
    return Field(
        default_factory=dict,
        description=about,
        json_schema_extra={"keys": [f"{prefix}.*" for prefix in prefixes], "unit": "", "secret": True},
    )


class Settings(BaseModel):
    """Settings of one kind of process. Frozen; `sources` tells where each value came from."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="forbid")
    role: ClassVar[str] = ""

    _sources: dict[str, str] = PrivateAttr(default_factory=dict)
    _unrecognized: tuple[str, ...] = PrivateAttr(default=())

    @property
    def sources(self) -> dict[str, str]:
        """Field → "default", "config file", "environment" or "command line"."""
        return {name: self._sources.get(name, "default") for name in type(self).model_fields}

    @property
    def unrecognized(self) -> tuple[str, ...]:
        """Keys of the config file and of PINOTPY_… that no setting reads; a daemon logs them at start."""
        return self._unrecognized

    def effective(self, masked: bool = True) -> dict[str, Any]:
        """Dotted key → value, as JSON can show it; secrets masked unless asked otherwise."""
        shown: dict[str, Any] = {}
        for name, field in type(self).model_fields.items():
            value = getattr(self, name)
            if isinstance(value, dict):
                prefix = dotted_key(name, field).removesuffix("*")
                shown |= {
                    prefix + key: MASK if masked and _SECRET_KEY.search(key) else text for key, text in value.items()
                }
                continue
            if masked and value is not None and setting_extra(field)["secret"]:
                value = MASK
            shown[dotted_key(name, field)] = str(value) if isinstance(value, Path) else value
        return shown


SettingsT = TypeVar("SettingsT", bound=Settings)


def setting_extra(field: FieldInfo) -> dict[str, Any]:
    """keys, unit and secret of a setting."""
    assert isinstance(field.json_schema_extra, dict)
    return dict(field.json_schema_extra)


def dotted_key(name: str, field: FieldInfo) -> str:
    """The key of config files and of /debug/config."""
    keys: list[str] = setting_extra(field)["keys"]
    return keys[0] if keys else name


def environment_names(cls: type[Settings], name: str) -> tuple[str, ...]:
    """`PINOTPY_BROKER_HOST` (this role's), then for settings that every role has `PINOTPY_HOST`; the first that is set
    wins.
    """
    role_name = f"{ENVIRONMENT_PREFIX}{cls.role.upper()}_{name.upper()}"
    # A role's own settings have no general name: the controller's broker_timeout_ms would be read as the broker's.
    shared = any(name in base.model_fields for base in cls.__mro__[1:] if issubclass(base, Settings))
    return (role_name, f"{ENVIRONMENT_PREFIX}{name.upper()}") if shared else (role_name,)


def load_settings(
    cls: type[SettingsT],
    config_file: Path | None = None,
    overrides: Mapping[str, Any] | None = None,
    environment: Mapping[str, str] | None = None,
) -> SettingsT:
    """Read the settings of a process.

    Args:
        config_file: a .properties or .json file with dotted keys (nested JSON objects are joined by dots).
        overrides: field name → value from the command line; None values are left out.
        environment: instead of the process's own.

    Raises:
        InvalidConfigError: with every fault, each naming its key and where it was set.
    """
    values: dict[str, tuple[Any, str, str]] = {}  # field → value, source, what the user wrote it as
    unknown: list[str] = []
    if config_file is not None:
        _take_file(cls, read_config_file(config_file), str(config_file), values, unknown)
    _take_environment(cls, os.environ if environment is None else environment, values, unknown)
    for name, value in (overrides or {}).items():
        if name not in cls.model_fields:
            raise InvalidConfigError(
                "command line is not valid:", (Fault(name, "no such setting", "one of " + ", ".join(cls.model_fields)),)
            )
        if value is not None:
            values[name] = (value, "command line", "--" + name.replace("_", "-"))
    return _build(cls, values, tuple(unknown))


def _build(cls: type[SettingsT], values: dict[str, tuple[Any, str, str]], unknown: tuple[str, ...]) -> SettingsT:
    try:
        settings = cls.model_validate({name: value for name, (value, _, _) in values.items()})
    except ValidationError as error:
        faults = []
        for detail in error.errors(include_url=False):
            name = str(detail["loc"][0]) if detail["loc"] else ""
            written = values[name][2] if name in values else name
            secret = name in cls.model_fields and setting_extra(cls.model_fields[name])["secret"]
            faults.append(
                Fault(
                    written,
                    MASK if secret else describe(detail["input"]) if name else "together",
                    fault_allowed(detail),
                )
            )
        raise InvalidConfigError(f"settings of the {cls.role} are not valid:", tuple(faults)) from error
    settings._sources = {name: source for name, (_, source, _) in values.items()}
    settings._unrecognized = unknown
    return settings


def read_config_file(path: Path) -> dict[str, Any]:
    """Dotted keys and values of a .json file, or of any other file as Java properties."""
    try:
        if path.stat().st_size > CONFIG_FILE_BYTES_MAX:
            raise InvalidConfigError(
                f"config file '{path}' is too large, at most {CONFIG_FILE_BYTES_MAX} bytes are read"
            )
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise InvalidConfigError(f"config file '{path}' cannot be read: {str(reason).lower()}") from error
    if path.suffix.lower() != ".json":
        return dict(parse_properties(text, f"config file '{path}'"))
    document = parse_json(text, f"config file '{path}'")
    if not isinstance(document, dict):
        raise InvalidConfigError(
            f"config file '{path}' is not valid:", (Fault("$", describe(document), "an object of dotted keys"),)
        )
    return _dotted(document, "")


def _dotted(document: dict[str, Any], prefix: str) -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in document.items():
        flat.update(_dotted(value, f"{prefix}{key}.") if isinstance(value, dict) else {f"{prefix}{key}": value})
    return flat


def _take_file(
    cls: type[Settings], given: dict[str, Any], where: str, values: dict[str, tuple[Any, str, str]], unknown: list[str]
) -> None:
    field_by_key: dict[str, str] = {}
    for name, field in cls.model_fields.items():
        field_by_key.update(dict.fromkeys([*setting_extra(field)["keys"], name], name))
    prefixes = {key.removesuffix("*"): name for key, name in field_by_key.items() if key.endswith(".*")}
    faults = []
    below: dict[str, dict[str, str]] = {}
    for key, value in given.items():
        target = field_by_key.get(key)
        prefix = next((prefix for prefix in prefixes if key.startswith(prefix)), None)
        if target is None and prefix is not None:
            texts, rest = below.setdefault(prefixes[prefix], {}), key.removeprefix(prefix)
            if texts.setdefault(rest, value) != value:
                faults.append(
                    Fault(f"{key} ({where})", "another value than of the same key elsewhere", "one of both keys")
                )
        elif target is None:
            unknown.append(key)
        elif target in values and values[target][0] != value:
            faults.append(Fault(f"{key} ({where})", "another value than " + values[target][2], "one of both keys"))
        else:
            values[target] = (value, "config file", f"{key} ({where})")
    if faults:
        raise InvalidConfigError(f"settings of the {cls.role} are not valid:", tuple(faults))
    for name, texts in below.items():
        values[name] = (texts, "config file", f"{setting_extra(cls.model_fields[name])['keys'][0]} ({where})")


def _take_environment(
    cls: type[Settings], environment: Mapping[str, str], values: dict[str, tuple[Any, str, str]], unknown: list[str]
) -> None:
    read: set[str] = set()
    for name in cls.model_fields:
        variables = environment_names(cls, name)
        read.update(variables)
        variable = next((variable for variable in variables if environment.get(variable, "") != ""), None)
        if variable is not None:
            values[name] = (environment[variable], "environment", variable)
    own_prefix = f"{ENVIRONMENT_PREFIX}{cls.role.upper()}_"
    unknown.extend(
        sorted(variable for variable in environment if variable.startswith(own_prefix) and variable not in read)
    )
