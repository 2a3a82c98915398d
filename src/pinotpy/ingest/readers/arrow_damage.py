"""What pyarrow raises for a file that is damaged or not of its format, and the cause in one line."""

from __future__ import annotations

from typing import Final

import pyarrow as pa

# A page that claims to be huge ends in MemoryError.
DAMAGE: Final = (
    pa.ArrowInvalid,
    pa.ArrowNotImplementedError,
    pa.ArrowKeyError,
    OSError,
    MemoryError,
    UnicodeDecodeError,
)


def cause_of(error: BaseException) -> str:
    """The first line of its text, in small letters; its class if it has none."""
    return str(error).splitlines()[0][:300].lower() if str(error) else type(error).__name__
