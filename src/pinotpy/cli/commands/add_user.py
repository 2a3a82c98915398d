"""Add a user (with rights per table) to a users file; the daemons notice within seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "add-user"


def run(
    users_file: Annotated[Path, typer.Option("--users-file", help="created if missing")],
    name: Annotated[str, typer.Option("--name", help="user name")],
    password: Annotated[
        str,
        typer.Option(
            "--password",
            prompt=True,
            hide_input=True,
            confirmation_prompt=True,
            envvar="PINOTPY_NEW_PASSWORD",
            help="prompted for if not given",
        ),
    ],
    table: Annotated[
        list[str] | None,
        typer.Option("--table", help="rights on tables: NAME=READ,WRITE or '*=ADMIN'; may be repeated"),
    ] = None,
    cluster: Annotated[str, typer.Option("--cluster", help="rights on the cluster: READ, WRITE, ADMIN")] = "",
    admin: Annotated[bool, typer.Option("--admin", help="all rights on everything")] = False,
    replace: Annotated[bool, typer.Option("--replace", help="replace an existing user")] = False,
    as_json: options.Json = False,
) -> None:
    from pinotpy.errors import Fault, InvalidConfigError
    from pinotpy.service.rights import ALL_RIGHTS, Rights
    from pinotpy.service.users_file import add_user

    if admin:
        rights = ALL_RIGHTS
    else:
        faults: list[Fault] = []
        document = {
            "tables": {n: a.split(",") for n, _, a in (entry.partition("=") for entry in table or [])},
            "cluster": [a for a in cluster.split(",") if a],
        }
        rights = Rights.from_json_dict(document, "$", faults)
        if faults:
            raise InvalidConfigError("the rights are not valid:", tuple(faults))
    add_user(users_file, name, password, rights, replace_existing=replace)
    typer.echo(
        json.dumps({"user": name, "usersFile": str(users_file)}) if as_json else f"user '{name}' is in {users_file}"
    )
