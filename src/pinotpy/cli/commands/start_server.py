"""Start a server: it holds segments and executes queries over them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "start-server"


def run(
    server_host: Annotated[str | None, typer.Option("--server-host", help="address to listen on (default 127.0.0.1)")] = None,
    server_port: Annotated[int | None, typer.Option("--server-port", help="gRPC query port (default 8098); 0 picks a free one")] = None,
    server_admin_port: Annotated[int | None, typer.Option("--server-admin-port", help="admin REST port (default 8097); 0 picks a free one")] = None,
    data_dir: Annotated[Path | None, typer.Option("--data-dir", help="where loaded segments are kept")] = None,
    segment_dir: Annotated[Path | None, typer.Option("--segment-dir", help="where downloads arrive")] = None,
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
    from pinotpy.config.settings import ServerSettings
    from pinotpy.config.settings_loading import load_settings
    from pinotpy.server.service import run_server

    settings = load_settings(
        ServerSettings,
        config_file,
        {
            "host": server_host,
            "port": server_port,
            "admin_port": server_admin_port,
            "data_dir": data_dir,
            "segment_dir": segment_dir,
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
    sys.exit(run_server(settings, ready_file))
