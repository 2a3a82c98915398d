"""Who this controller is to other daemons."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class Identity:
    """Name and address of this controller: known once its port is bound, empty before."""

    instance: str = ""
    url: str = ""
