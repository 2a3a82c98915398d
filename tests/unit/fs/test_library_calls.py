"""Proves what becomes of the errors of a storage's library: their class, what the message says, and that secrets stay
out of it.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest

from pinotpy.errors import DataError, NotFoundError, PinotError, RemoteError, UserError
from pinotpy.fs.library_calls import StorageLibrary

LIBRARY = StorageLibrary(
    "the storage", 0.2, (OSError, ValueError), re.compile("AccessDenied"), lambda text: text.replace("s3cret", "*****")
)
URI = "gs://user:pass@bucket/a"


def raising(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (FileNotFoundError("gone"), NotFoundError, "no file 'gs://"),
        (
            OSError("AccessDenied for s3cret"),
            DataError,
            "the storage refuses .*: AccessDenied for \\*\\*\\*\\*\\*: check credentials",
        ),
        (ValueError("reset by s3cret"), RemoteError, "the storage failed on .*: reset by \\*\\*\\*\\*\\*"),
        (UserError("as it is"), UserError, "as it is"),
    ],
)
def test_errors_of_the_library_are_told_as_ours(error: Exception, kind: type[PinotError], message: str) -> None:
    with pytest.raises(kind, match=message) as told:
        LIBRARY.call(URI, raising(error))
    assert "s3cret" not in f"{told.value}{told.value.__cause__}" and "pass@" not in str(told.value)


def test_what_is_no_fault_of_the_storage_is_a_bug_and_goes_through() -> None:
    with pytest.raises(KeyError):
        LIBRARY.call(URI, raising(KeyError("x")))


def test_a_call_that_hangs_is_given_up() -> None:
    release = threading.Event()
    with pytest.raises(RemoteError, match=r"the storage on 'gs://.*': no answer within 0\.2 s"):
        LIBRARY.call(URI, release.wait)
    release.set()
    assert LIBRARY.call(URI, lambda: 7) == 7
