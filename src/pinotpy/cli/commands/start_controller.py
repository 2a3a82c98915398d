"""Start a controller: REST, the query page, and (one of them) the leader that assigns segments."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "start-controller"


def run(
    controller_host: Annotated[str | None, typer.Option("--controller-host", help="address to listen on (default 127.0.0.1)")] = None,
    controller_port: Annotated[int | None, typer.Option("--controller-port", help="port (default 9000); 0 picks a free one")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="deep store: uploaded segments are kept here")] = None,
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
    ready_file: options.ReadyFile = None,
) -> None:
    from pinotpy.service.daemon import keep_imports_lean

    keep_imports_lean()
    from pinotpy.config.settings import ControllerSettings
    from pinotpy.config.settings_loading import load_settings
    from pinotpy.controller.service import run_controller

    settings = load_settings(
        ControllerSettings,
        config_file,
        {
            "host": controller_host,
            "port": controller_port,
            "data_dir": data_dir,
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
        },
    )
    sys.exit(run_controller(settings, ready_file))
