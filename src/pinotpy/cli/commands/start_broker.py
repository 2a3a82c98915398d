"""Start a broker: it answers POST /query by asking the servers."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from pinotpy.cli import options

NAME = "start-broker"


def run(
    broker_host: Annotated[str | None, typer.Option("--broker-host", help="address to listen on (default 127.0.0.1)")] = None,
    broker_port: Annotated[int | None, typer.Option("--broker-port", help="port (default 8099); 0 picks a free one")] = None,
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
    from pinotpy.broker.service import run_broker
    from pinotpy.config.settings import BrokerSettings
    from pinotpy.config.settings_loading import load_settings

    settings = load_settings(
        BrokerSettings,
        config_file,
        {
            "host": broker_host,
            "port": broker_port,
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
    sys.exit(run_broker(settings, ready_file))
