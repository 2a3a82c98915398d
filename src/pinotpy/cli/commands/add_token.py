"""Create a bearer token for a user; it is shown once and stored only as a hash."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "add-token"


def run(
    users_file: Annotated[Path, typer.Option("--users-file", help="the users file", exists=True)],
    name: Annotated[str, typer.Option("--name", help="user that the token acts for")],
    days: Annotated[int, typer.Option("--days", help="how long it is valid; 0 = until it is revoked", min=0)] = 90,
    comment: Annotated[str, typer.Option("--comment", help="purpose of the token")] = "",
    as_json: options.Json = False,
) -> None:
    from pinotpy.clock import SystemClock
    from pinotpy.service.users_file import add_token

    expires_at_ms = SystemClock().now_ms() + days * 86_400_000 if days else None
    token = add_token(users_file, name, expires_at_ms=expires_at_ms, comment=comment)
    typer.echo(
        json.dumps({"token": token, "user": name, "expiresAtMs": expires_at_ms, "usersFile": str(users_file)})
        if as_json
        else token
    )
