"""Options that several commands take as one value: those of every daemon, those of every client of a controller.

@takes(daemon_options)
def run(common: DaemonOptions, broker_port: …) -> None: …
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from pinotpy.cli import options
from pinotpy.errors import NotFoundError, PinotError
from pinotpy.names import split_table_name

if TYPE_CHECKING:
    from pinotpy.client.controller import ControllerClient
    from pinotpy.client.http_calls import Access
    from pinotpy.config.settings_loading import Settings

    SettingsT = TypeVar("SettingsT", bound=Settings)

# To compare longer names takes long.
_NAME_CHARACTERS_MAX: Final = 200


@dataclass(frozen=True, slots=True)
class DaemonOptions:
    """What every daemon is started with. `common`: settings that all roles have, None where not given."""

    config_file: Path | None
    ready_file: Path | None
    common: dict[str, Any]

    def settings(self, kind: type[SettingsT], **own: Any) -> SettingsT:
        """The settings of a role, with these options and the role's own on top."""
        from pinotpy.config.settings_loading import load_settings

        return load_settings(kind, self.config_file, {**own, **self.common})


def daemon_options(
    zk_address: options.ZkAddress = None,
    cluster_name: options.ClusterName = None,
    config_file: options.ConfigFile = None,
    advertised_host: options.AdvertisedHost = None,
    advertised_port: options.AdvertisedPort = None,
    auth_users_file: options.UsersFile = None,
    cluster_token_file: options.ClusterTokenFile = None,
    tls_cert_file: options.TlsCert = None,
    tls_key_file: options.TlsKey = None,
    tls_ca_file: options.TlsCa = None,
    insecure: options.Insecure = False,
    memory_share: options.MemoryShare = None,
    ready_file: options.ReadyFile = None,
) -> DaemonOptions:
    """Options of start-controller, start-broker and start-server."""
    common = {
        "zk_address": zk_address,
        "cluster_name": cluster_name,
        "advertised_host": advertised_host,
        "advertised_port": advertised_port,
        "auth_users_file": auth_users_file,
        "cluster_token_file": cluster_token_file,
        "tls_cert_file": tls_cert_file,
        "tls_key_file": tls_key_file,
        "tls_ca_file": tls_ca_file,
        "insecure": insecure or None,
        "memory_share": memory_share,
    }
    return DaemonOptions(config_file, ready_file, common)


@dataclass(frozen=True, slots=True)
class ControllerOptions:
    """Which controller a command speaks to, and how it answers."""

    client: Callable[[], ControllerClient]
    as_json: bool
    controller_url: str
    access: Callable[[], Access]

    @contextmanager
    def client_of(self, table: str) -> Iterator[ControllerClient]:
        """A client for what is done with one table: where there is no table of this name, the error has a near one of
        those that the caller may see.
        """
        with self.client() as client:
            try:
                yield client
            except NotFoundError as error:
                near = _near_table(client, table)
                message = error.message.removesuffix(".") if near else error.message
                raise NotFoundError(message + near, **error.context) from None

    def print_status(self, answer: dict[str, Any]) -> None:
        """The answer to a change: its status line, or all of it as JSON."""
        options.print_status(answer, self.as_json)


def _near_table(client: ControllerClient, table: str) -> str:
    """What to say beside the error; "" where the table is there, or nobody says which there are."""
    name = split_table_name(table)[0]
    try:
        known = client.tables()
    except PinotError:
        return ""
    same = [each for each in known if each.lower() == name.lower()]
    near = same or get_close_matches(name[:_NAME_CHARACTERS_MAX], known, 1)
    return f"; did you mean '{near[0]}'?" if near and name not in known else ""


def controller_options(
    controller_url: options.ControllerUrl = options.DEFAULT_CONTROLLER,
    user: options.AuthUser = None,
    password: options.AuthPassword = None,
    auth_token: options.AuthToken = None,
    tls_ca_file: options.ClientCa = None,
    as_json: options.Json = False,
) -> ControllerOptions:
    """Options of commands that call a controller."""

    def access() -> Access:
        return options.access(user, password, auth_token, tls_ca_file)

    def client() -> ControllerClient:
        from pinotpy.client.controller import ControllerClient

        return ControllerClient(controller_url, access())

    return ControllerOptions(client, as_json, controller_url, access)


def takes(group: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The command takes, behind its own options, those of `group`, and gets what `group` makes of them as its first
    argument; of several groups, that of the decorator nearest to it first.
    """
    shared = inspect.signature(group, eval_str=True).parameters

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        _, *own_parameters = inspect.signature(run, eval_str=True).parameters.values()

        def command(*of_other_groups: Any, **values: Any) -> None:
            options = group(**{name: values.pop(name) for name in shared})
            run(options, *of_other_groups, **values)

        # What Typer reads.
        parameters = [*own_parameters, *shared.values()]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        command.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        return command

    return decorate
