"""Reading the configs of a scheme: known keys only, typed, with every fault told."""

from __future__ import annotations

import re
import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

from pinotpy.errors import Fault, InvalidConfigError


class Configs:
    """Takes configs one by one; `finish` refuses those that nobody took, for one that is passed over (an encryption,
    say) is no small matter.
    """

    def __init__(self, scheme: str, configs: Mapping[str, str]) -> None:
        self._scheme = scheme
        self._configs = dict(configs)
        self._known: list[str] = []
        self._faults: list[Fault] = []

    def text(self, *keys: str) -> str | None:
        """The first of these keys that is set and not empty."""
        self._known.append(keys[0])
        values = [self._configs.pop(key, "").strip() for key in keys]
        return next((value for value in values if value), None)

    def flag(self, key: str, default: bool) -> bool:
        value = self.text(key)
        if value is not None and value.lower() not in ("true", "false"):
            self._faults.append(Fault(key, f"'{value[:40]}'", "true or false"))
        return default if value is None else value.lower() == "true"

    def seconds(self, key: str, default_ms: int) -> float:
        """A time-out in milliseconds, as seconds; at least 100 ms."""
        value = self.text(key)
        if value is not None and not (value.isascii() and value.isdigit() and int(value) >= 100):
            self._faults.append(Fault(key, f"'{value[:40]}'", "milliseconds, at least 100"))
            value = None
        return int(value or default_ms) / 1000

    def ca_file(self) -> str | None:
        """The file of certificates that TLS trusts, which must be one."""
        path = self.text("caFile")
        if path is not None:
            try:
                ssl.create_default_context(cafile=path)
            except OSError as error:  # as are those of ssl
                self.fault(
                    "caFile",
                    f"'{path[:200]}': {(error.strerror or type(error).__name__).lower()}",
                    "a file of certificates (PEM)",
                )
                return None
        return path

    def endpoint(self) -> str | None:
        """The storage's own address, with its scheme: https unless it says otherwise."""
        text = self.text("endpoint")
        if text is None:
            return None
        address = text if "//" in text else f"https://{text}"
        try:
            parts = urlsplit(address)
            is_one = (
                parts.scheme in ("http", "https")
                and parts.hostname
                and parts.port != 0
                and not parts.path.strip("/")
                and "@" not in parts.netloc
            )
        except ValueError:
            is_one = False
        if not is_one:
            self.fault(
                "endpoint",
                f"'{re.sub('//.*@', '//*****@', address)[:200]}'",
                "https://host[:port], without credentials",
            )
            return None
        return address

    def fault(self, key: str, found: str, allowed: str) -> None:
        self._faults.append(Fault(key, found, allowed))

    def finish(self) -> None:
        """Raise InvalidConfigError with every fault."""
        unknown = [
            Fault(key, "an unknown key", "one of " + ", ".join(sorted(self._known))) for key in sorted(self._configs)
        ]
        if faults := (*self._faults, *unknown):
            raise InvalidConfigError(f"the configs of file system '{self._scheme}' are not valid:", tuple(faults))
