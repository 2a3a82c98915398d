"""What a trial of deployment says when something is not as promised."""

from __future__ import annotations


class TrialError(Exception):
    """Something is not as the deployment promises."""


def require(condition: bool, what: str) -> None:
    """Not an assert: it must hold whatever options Python runs with."""
    if not condition:
        raise TrialError(what)
