"""Calls of a storage's own library: with a deadline, and with its errors told as ours."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError
from pinotpy.fs.deadlines import within
from pinotpy.fs.uris import masked

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class StorageLibrary:
    """What is to be known of a library to call it; safe to share between threads.

    Attributes:
        storage: what messages call it.
        timeout_s: longest wait for one call, the library's own tries included.
        errors: what it raises where the storage fails.
        refused: found in the reason of what no further try mends: the account, the name, the right.
        reason_of: the part of an error's text that messages may have.
    """

    storage: str
    timeout_s: float
    errors: tuple[type[Exception], ...]
    refused: re.Pattern[str]
    reason_of: Callable[[str], str]

    def call(self, uri: str, call: Callable[[], T]) -> T:
        """What `call` gives.

        Raises:
            NotFoundError: there is no such file.
            DataError: the storage refuses it.
            RemoteError: the storage failed, or the time is up: a further try may do.
        """
        shown = masked(uri)
        try:
            return within(self.timeout_s, call, f"{self.storage} on '{shown}'")
        except PinotError:
            raise
        except FileNotFoundError as error:
            raise NotFoundError(f"no file '{shown}'", uri=shown) from error
        except self.errors as error:
            # Not `from error`: its text may have what `reason_of` leaves out.
            reason = self.reason_of(str(error))
            if self.refused.search(reason):
                raise DataError(
                    f"{self.storage} refuses '{shown}': {reason}: check credentials, rights, quotas and name", uri=shown
                ) from None
            raise RemoteError(f"{self.storage} failed on '{shown}': {reason}", uri=shown) from None
