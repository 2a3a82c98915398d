"""Options that many commands share, and the values made from them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from pinotpy.errors import UserError

if TYPE_CHECKING:
    from rich.progress import Progress

    from pinotpy.client.http_calls import Access

# --- of daemons ----------------------------------------------------------------------------------------------------

ConfigFile = Annotated[
    Path | None,
    typer.Option(
        "--config-file", help="settings in Pinot's dotted keys (.properties or .json)", exists=True, dir_okay=False
    ),
]
ZkAddress = Annotated[
    str | None, typer.Option("--zk-address", help="ZooKeeper, host:port[,host:port…] (default localhost:2181)")
]
ClusterName = Annotated[str | None, typer.Option("--cluster-name", help="name of the cluster (default PinotCluster)")]
AdvertisedHost = Annotated[
    str | None, typer.Option("--advertised-host", help="host that others use to reach this daemon")
]
AdvertisedPort = Annotated[
    int | None, typer.Option("--advertised-port", help="port that others use to reach this daemon")
]
UsersFile = Annotated[
    Path | None,
    typer.Option("--auth-users-file", help="file of users, tokens and rights; turns on access control (see add-user)"),
]
ClusterTokenFile = Annotated[
    Path | None, typer.Option("--cluster-token-file", help="file with the cluster's shared secret")
]
TlsCert = Annotated[Path | None, typer.Option("--tls-cert-file", help="PEM certificate chain: serve TLS")]
TlsKey = Annotated[Path | None, typer.Option("--tls-key-file", help="PEM key of the certificate")]
TlsCa = Annotated[
    Path | None, typer.Option("--tls-ca-file", help="PEM of the CA that signs the other daemons' certificates")
]
Insecure = Annotated[
    bool, typer.Option("--insecure", help="listen on an address other than loopback without access control")
]
MemoryShare = Annotated[
    float | None, typer.Option("--memory-share", help="share of the machine's or control group's memory to use, 0 to 1")
]
ReadyFile = Annotated[Path | None, typer.Option("--ready-file", help="file to write address and pid to once ready")]


def one_name(command: str, what: str, examples: str, argument: str | None, option: str | None) -> str:
    """A name that is given as the argument or as an option. Raises UserError for none, and for two."""
    name = argument or option
    if name is None or (argument and option and argument != option):
        raise UserError(f"expected the name of one {what}: pinotpy {command} {what.upper()}, such as {examples}")
    return name


# --- of clients ----------------------------------------------------------------------------------------------------

ControllerUrl = Annotated[str, typer.Option("--controller-url", help="controller", envvar="PINOTPY_CONTROLLER_URL")]
BrokerUrl = Annotated[str, typer.Option("--broker-url", help="broker", envvar="PINOTPY_BROKER_URL")]
AuthUser = Annotated[
    str | None, typer.Option("--user", help="user name, if access control is on", envvar="PINOTPY_USER")
]
AuthPassword = Annotated[
    str | None, typer.Option("--password", help="password (better set in the environment)", envvar="PINOTPY_PASSWORD")
]
AuthToken = Annotated[
    str | None,
    typer.Option("--auth-token", help="bearer token instead of user and password", envvar="PINOTPY_AUTH_TOKEN"),
]
ClientCa = Annotated[
    Path | None, typer.Option("--tls-ca-file", help="PEM of the CA to trust for https", envvar="PINOTPY_TLS_CA_FILE")
]
MissingColumns = Annotated[
    str | None,
    typer.Option(
        "--missing-columns",
        help="FAIL, WARN or DEFAULT: how to treat files that lack a column of the schema (default: as job and table "
        "say)",
    ),
]
Yes = Annotated[bool, typer.Option("--yes", help="do not ask; needed where there is no terminal")]
Json = Annotated[bool, typer.Option("--json", help="print JSON instead of text")]

# --- of the cluster on this machine ----------------------------------------------------------------------------------

DataDir = Annotated[
    Path | None,
    typer.Option(
        "--data-dir",
        help="folder of the cluster's data, logs and ports (default $XDG_DATA_HOME/pinotpy or ~/.local/share/pinotpy)",
        envvar="PINOTPY_DATA_DIR",
        file_okay=False,
    ),
]

DEFAULT_CONTROLLER = "http://localhost:9000"
DEFAULT_BROKER = "http://localhost:8099"


def access(user: str | None, password: str | None, token: str | None, ca: Path | None) -> Access:
    """Credentials and trust of a client command."""
    from pinotpy.client.http_calls import Access

    if (user is None) != (password is None):
        raise UserError("both --user and --password are needed, found one of them")
    if token and user:
        raise UserError("give either --auth-token or --user with --password, found both")
    return Access(auth=token or ((user, password) if user and password else None), ca=ca)


def print_status(answer: dict[str, Any], as_json: bool) -> None:
    """The answer to a change: its status line, and on standard error the keys that nothing reads and warnings; or
    all of it as JSON.
    """
    typer.echo(json.dumps(answer, indent=2) if as_json else str(answer.get("status", answer)))
    unknown = answer.get("unrecognizedProperties")
    if unknown and not as_json:
        # Most often a key that is spelt wrongly: the index that it was to name is not there.
        typer.echo(f"note: keys that nothing reads: {', '.join(sorted(unknown))}", err=True)
    idle = answer.get("propertiesWithoutEffect")
    if idle and not as_json:
        typer.echo(f"note: keys that have no effect yet: {', '.join(sorted(idle))}", err=True)
    for warning in () if as_json else answer.get("warnings") or ():
        typer.echo(f"warning: {warning}", err=True)


def progress(as_json: bool) -> Progress:
    """A progress bar on standard error, so that standard output holds the result alone; none with --json or without a
    terminal.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=as_json or not console.is_terminal, transient=True)
