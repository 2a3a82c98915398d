"""Settings of file systems, by scheme: Pinot's `pinotFSSpecs` of a job and `….storage.factory` keys of an operator."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pinotpy.errors import Fault, InvalidConfigError

_MAY_BE_SECRET: Final = re.compile(r"key|secret|token|password|credential|authorization", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SchemeSettings:
    """One scheme. `configs` may hold secrets: they are in no repr and in no message.

    class_name: what implements it: "" or a class of Pinot's plug-ins for what is built in, else `module:attribute` of
    an operator.
    configs: sorted (key, value), such as ("region", "eu-central-1").
    """

    class_name: str = ""
    configs: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def config(self) -> dict[str, str]:
        return dict(self.configs)

    def without_secrets(self, text: str) -> str:
        """A text of somebody else's, such as a library's error, as it may be shown."""
        for key, value in self.configs:
            if _MAY_BE_SECRET.search(key) and len(value) > 3:
                text = text.replace(value, "*****")
        return text


@dataclass(frozen=True, slots=True)
class FileSystemSettings:
    """Settings of all schemes, sorted by scheme; equal ones share their connections."""

    schemes: tuple[tuple[str, SchemeSettings], ...] = ()

    def of(self, scheme: str) -> SchemeSettings:
        """Those of a scheme; empty ones if there are none."""
        return dict(self.schemes).get(scheme, SchemeSettings())

    @staticmethod
    def from_specs(specs: Sequence[Mapping[str, Any]]) -> FileSystemSettings:
        """Settings from a job's `pinotFSSpecs`: [{scheme, className, configs: {…}}].

        Raises InvalidConfigError with every fault.
        """
        faults: list[Fault] = []
        by_scheme: dict[str, SchemeSettings] = {}
        for place, spec in enumerate(specs):
            where = f"$.pinotFSSpecs[{place}]"
            scheme, class_name, configs = spec.get("scheme"), spec.get("className") or "", spec.get("configs") or {}
            if not isinstance(scheme, str) or not scheme:
                faults.append(Fault(f"{where}.scheme", repr(scheme)[:80], "a scheme such as s3"))
            elif scheme.lower() in by_scheme:
                faults.append(Fault(f"{where}.scheme", f"'{scheme}' again", "each scheme once"))
            elif not isinstance(class_name, str):
                faults.append(Fault(f"{where}.className", repr(class_name)[:80], "a text"))
            elif not isinstance(configs, Mapping):
                faults.append(Fault(f"{where}.configs", type(configs).__name__, "an object of keys and values"))
            else:
                by_scheme[scheme.lower()] = SchemeSettings(
                    class_name, tuple(sorted((str(key), _text(value)) for key, value in configs.items()))
                )
        if faults:
            raise InvalidConfigError("the file systems of the job are not valid:", tuple(faults))
        return FileSystemSettings(tuple(sorted(by_scheme.items())))

    @staticmethod
    def from_properties(properties: Mapping[str, str]) -> FileSystemSettings:
        """Settings from a daemon's keys below `….storage.factory.`: `class.<scheme>` and `<scheme>.<key>`."""
        classes: dict[str, str] = {}
        configs: dict[str, dict[str, str]] = {}
        for key, value in properties.items():
            first, _, rest = key.partition(".")
            if first == "class":
                classes[rest.lower()] = value
            else:
                configs.setdefault(first.lower(), {})[rest] = value
        return FileSystemSettings(
            tuple(
                (scheme, SchemeSettings(classes.get(scheme, ""), tuple(sorted(configs.get(scheme, {}).items()))))
                for scheme in sorted({*classes, *configs})
            )
        )


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
