"""Settings of the daemons, each with type, bounds, unit and a sentence. Dotted keys are Pinot's where Pinot has one.

Order: default < config file (`--config-file`) < environment (`PINOTPY_BROKER_PORT`, `PINOTPY_PORT`) < command line.
"""

from __future__ import annotations

from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, ClassVar, Self

from pydantic import BeforeValidator, model_validator

from pinotpy.config.adaptive_selection import AdaptiveSelectionSettings
from pinotpy.config.document import Number, WholeNumber
from pinotpy.config.query_log import QueryLogSettings
from pinotpy.config.settings_loading import Flag, Names, Settings, Size, Texts, load_settings, setting, settings_below
from pinotpy.names import DEFAULT_CLUSTER

__all__ = ["BrokerSettings", "ControllerSettings", "ProcessSettings", "ServerSettings", "load_settings"]

MIB = 1 << 20
Location = Annotated[
    str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)
]  # a path or a URI
GIB = 1 << 30
STORAGE_FACTORY = "File systems by scheme: class.<scheme>, <scheme>.region, <scheme>.endpoint … (docs/file-systems.md)."
SEGMENT_FETCHER = (
    "Segment fetchers by protocol: <protocol>.retry.count, <protocol>.retry.wait.ms, <protocol>.class … "
    "(docs/file-systems.md)."
)
URIS_ALLOWED = (
    "Addresses that segments may be fetched from, as URIs such as s3://bucket/, and networks that web "
    "addresses may resolve to; comma-separated."
)
CRYPTER = "Crypters by name: class.<name>, <name>.<key> (docs/file-systems.md)."
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")


class ProcessSettings(Settings):
    """What every daemon has."""

    host: str = setting("127.0.0.1", "pinotpy.host", about="Address that the daemon listens on.", min_length=1)
    advertised_host: str | None = setting(
        None, "pinotpy.advertised.host", about="Host that others connect to; default: host."
    )
    advertised_port: WholeNumber | None = setting(
        None, "pinotpy.advertised.port", about="Port that others connect to; default: the bound port.", ge=1, le=65535
    )
    zk_address: str = setting(
        "localhost:2181",
        "pinot.zk.server",
        "controller.zk.str",
        "zookeeper.address",
        about="ZooKeeper hosts: host:port, …",
        min_length=1,
    )
    cluster_name: str = setting(
        DEFAULT_CLUSTER,
        "pinot.cluster.name",
        "controller.helix.cluster.name",
        about="Name of the cluster, a node of ZooKeeper's root.",
        min_length=1,
    )
    zk_session_timeout_ms: WholeNumber = setting(
        30_000, "pinot.zk.session.timeoutMs", about="Session timeout.", unit="ms", ge=1_000, le=600_000
    )
    zk_connect_timeout_ms: WholeNumber = setting(
        30_000, "pinot.zk.connect.timeoutMs", about="Longest wait for ZooKeeper at start.", unit="ms", ge=100
    )
    request_bytes_max: Size = setting(
        8 * MIB,
        "pinotpy.http.request.maxBytes",
        about="Longest request body, except uploads.",
        unit="bytes",
        ge=1_024,
    )
    http_connections_max: WholeNumber = setting(
        1_000,
        "pinotpy.http.maxConnections",
        about="Open HTTP connections; with an eighth more for health checks and daemons at most half of the open files "
        "that the process may have.",
        ge=1,
    )
    http_connections_by_address_max: WholeNumber = setting(
        0,
        "pinotpy.http.maxConnectionsPerAddress",
        about="Open HTTP connections from one address (IPv6: /64 network); 0: half of all.",
        ge=0,
    )
    http_trusted_proxies: Names = setting(
        (),
        "pinotpy.http.trustedProxies",
        about="Addresses and networks (CIDR) of proxies whose X-Forwarded-For names the client; comma-separated.",
    )
    memory_share: Number | None = setting(
        None,
        "pinotpy.memory.share",
        about="Share of the memory of its control group, else of the machine, that this process with its workers may "
        "use; default: 0.1 of a controller, 0.2 of a broker, 0.5 of a server.",
        gt=0,
        le=1,
    )
    shutdown_timeout_ms: WholeNumber = setting(
        10_000, "pinotpy.shutdown.timeoutMs", about="Longest wait for running requests at stop.", unit="ms", ge=1_000
    )
    auth_users_file: Path | None = setting(
        None,
        "pinotpy.auth.usersFile",
        about="File of users, hashed secrets and rights; without it everybody may do everything.",
    )
    cluster_token_file: Path | None = setting(
        None, "pinotpy.auth.clusterTokenFile", about="File with the shared secret of the cluster's daemons."
    )
    tls_cert_file: Path | None = setting(
        None, "pinotpy.tls.certFile", about="PEM certificate chain; with the key, HTTP and gRPC use TLS."
    )
    tls_key_file: Path | None = setting(None, "pinotpy.tls.keyFile", about="PEM private key of the certificate.")
    tls_ca_file: Path | None = setting(
        None,
        "pinotpy.tls.caFile",
        about="PEM certificates of the CA that other daemons' certificates must be signed by.",
    )
    insecure: Flag = setting(
        False, "pinotpy.insecure", about="Allow an address other than loopback without users file."
    )
    audit_file: Path | None = setting(
        None, "pinotpy.audit.file", about="File of the audit trail; default: among the other log lines."
    )
    user_functions: Names = setting(
        (),
        "pinotpy.user.functions",
        "pinot.server.user.functions",
        "pinot.broker.user.functions",
        "controller.user.functions",
        about="User functions that must exist at startup: module:function, or names that installed packages announce; "
        "comma-separated.",
    )
    log_level: str = setting(
        "INFO", "pinotpy.log.level", about="DEBUG, INFO, WARNING or ERROR.", pattern="^(DEBUG|INFO|WARNING|ERROR)$"
    )

    @property
    def is_loopback(self) -> bool:
        return self.host in LOOPBACK_HOSTS

    @property
    def uses_tls(self) -> bool:
        return self.tls_cert_file is not None

    @model_validator(mode="after")
    def _check_together(self) -> Self:
        if (self.tls_cert_file is None) != (self.tls_key_file is None):
            raise ValueError("both pinotpy.tls.certFile and pinotpy.tls.keyFile, or neither")
        for text in self.http_trusted_proxies:
            try:
                ip_network(text, strict=False)
            except ValueError:
                raise ValueError(
                    f"addresses or networks such as 10.0.0.0/8 in pinotpy.http.trustedProxies, not '{text[:80]}'"
                ) from None
        if not self.is_loopback and self.auth_users_file is None and not self.insecure:
            raise ValueError(
                f"pinotpy.auth.usersFile for the address '{self.host}', which others can reach; or --insecure to do "
                "without"
            )
        return self


class ControllerSettings(ProcessSettings):
    """Settings of a controller."""

    role: ClassVar[str] = "controller"

    host: str = setting(
        "127.0.0.1", "controller.host", "pinotpy.host", about="Address that the controller listens on.", min_length=1
    )
    port: WholeNumber = setting(9000, "controller.port", about="REST port; 0 picks a free one.", ge=0, le=65535)
    data_dir: Location = setting(
        "pinotpy-data/controller",
        "controller.data.dir",
        about="Deep store and deleted segments: a folder, or a URI of s3:, gs:, abfs:, hdfs:, webhdfs: or an "
        "operator's file system.",
        min_length=1,
    )
    local_temp_dir: Path | None = setting(
        None,
        "controller.local.temp.dir",
        about="Folder of uploads in progress, exclusive to this controller; default: in the data folder, or "
        "pinotpy-data/controller if that is a URI.",
    )
    storage_factory: Texts = settings_below(
        "pinot.controller.storage.factory", "pinotpy.storage.factory", about=STORAGE_FACTORY
    )
    segment_fetcher: Texts = settings_below(
        "pinot.controller.segment.fetcher", "pinotpy.segment.fetcher.protocol", about=SEGMENT_FETCHER
    )
    segment_uris_allowed: Names = setting(
        (), "pinotpy.segment.fetcher.allowedUris", "controller.segment.upload.uri.allowlist", about=URIS_ALLOWED
    )
    stream_uris_allowed: Names = setting(
        ("*",),
        "pinotpy.stream.allowedUris",
        about="Addresses that the streams of tables may name, as URIs such as kafka://broker:9092 or "
        "file:///mnt/streams/; * is every address; comma-separated.",
    )
    crypter: Texts = settings_below("pinot.controller.crypter", "pinotpy.crypter", about=CRYPTER)
    upload_bytes_max: Size = setting(
        10 * GIB, "controller.segment.upload.maxSizeBytes", about="Longest segment upload.", unit="bytes", ge=1_024
    )
    upload_timeout_ms: WholeNumber = setting(
        600_000, "controller.segment.upload.timeoutInMillis", about="Longest upload.", unit="ms", ge=1_000
    )
    uploads_max: WholeNumber = setting(
        8, "controller.segment.upload.maxConcurrent", about="Concurrent uploads.", ge=1, le=1_000
    )
    upload_check_bytes_max: Size = setting(
        128 * MIB,
        "controller.segment.upload.checkMemoryBytes",
        about="Memory for unpacking and checking uploads; those that do not fit are unpacked to disk.",
        unit="bytes",
    )
    archive_entries_max: WholeNumber = setting(
        1_000, "controller.segment.archive.maxEntries", about="Maximum files in an uploaded segment.", ge=1
    )
    archive_unpacked_bytes_max: Size = setting(
        40 * GIB,
        "controller.segment.archive.maxUnpackedBytes",
        about="Maximum unpacked size of a segment.",
        unit="bytes",
        ge=1_024,
    )
    deleted_segments_retention_days: WholeNumber = setting(
        7,
        "controller.deleted.segments.retentionInDays",
        about="How long files of deleted segments are kept; 0 deletes at once.",
        unit="days",
        ge=0,
        le=36_500,
    )
    replace_wait_ms: WholeNumber = setting(
        20_000,
        "controller.segment.replace.waitMs",
        about="How long a step of a replacement waits for segments to be loaded.",
        unit="ms",
        ge=0,
        le=25_000,
    )
    split_commit: Flag = setting(
        True,
        "controller.enable.split.commit",
        about="Commit segments of streams in steps (build, upload, end), with servers that do; false: in one message.",
    )
    legacy_get_changes: Flag = setting(
        False,
        "pinot.controller.legacy.get.changes",
        about="Take requests of old clients that change something by GET without credentials.",
    )
    store_patience_ms: WholeNumber = setting(
        4_500,
        "controller.zk.request.timeoutMs",
        about="How long a request waits for a ZooKeeper that does not answer, all its calls together; then 503.",
        unit="ms",
        ge=100,
    )
    threads: WholeNumber = setting(
        32, "controller.threads", about="Threads for requests that touch ZooKeeper or files.", ge=1, le=256
    )
    reconcile_interval_ms: WholeNumber = setting(
        30_000,
        "controller.reconcile.intervalMs",
        about="Time between full comparisons of ideal and current states.",
        unit="ms",
        ge=100,
    )
    broker_timeout_ms: WholeNumber = setting(
        60_000,
        "controller.broker.timeoutMs",
        about="Longest wait of the query page for a broker.",
        unit="ms",
        ge=100,
    )
    storage_quota_check: Flag = setting(
        True, "controller.enable.storage.quota.check", about="Refuse uploads beyond a table's storage quota."
    )
    retention_interval_s: WholeNumber = setting(
        21_600, "controller.retention.frequencyInSeconds", about="Time between retention runs.", unit="s", ge=1
    )
    deep_store_scrub_period_s: WholeNumber = setting(
        86_400,
        "pinotpy.controller.deepStoreScrub.frequencyInSeconds",
        about="How often each archive in the deep store is read and checked; 0: only those that are missing, or that a "
        "server could not get.",
        unit="s",
        ge=0,
    )
    deep_store_scrub_rate: Size = setting(
        20 * MIB,
        "pinotpy.controller.deepStoreScrub.maxBytesPerSecond",
        about="Rate of that reading, per second.",
        unit="bytes",
        ge=64 * 1024,
    )
    status_check_interval_s: WholeNumber = setting(
        300, "controller.statuschecker.frequencyInSeconds", about="Time between status checks.", unit="s", ge=1
    )
    broker_resource_interval_s: WholeNumber = setting(
        3_600,
        "controller.broker.resource.validation.frequencyInSeconds",
        about="Time between repairs of the broker resource.",
        unit="s",
        ge=1,
    )
    realtime_validation_interval_s: WholeNumber = setting(
        60,
        "controller.realtime.segment.validation.frequencyInSeconds",
        about="Time between looks for new partitions of the streams that tables read.",
        unit="s",
        ge=1,
    )
    periodic_initial_delay_s: Number = setting(
        120.0,
        "controller.periodic.initialDelayInSeconds",
        about="Delay before the first periodic run, plus up to as much again at random.",
        unit="s",
        ge=0,
    )


class BrokerSettings(ProcessSettings, QueryLogSettings, AdaptiveSelectionSettings):
    """Settings of a broker."""

    role: ClassVar[str] = "broker"

    host: str = setting(
        "127.0.0.1", "pinot.broker.hostname", "pinotpy.host", about="Address that the broker listens on.", min_length=1
    )
    port: WholeNumber = setting(
        8099, "pinot.broker.client.queryPort", about="Query port; 0 picks a free one.", ge=0, le=65535
    )
    timeout_ms: WholeNumber = setting(
        10_000,
        "pinot.broker.timeoutMs",
        about="Default and maximum query timeout; a client may lower it. An answer warns if more was requested.",
        unit="ms",
        ge=1,
    )
    response_rows_max: WholeNumber = setting(
        2**31 - 1,
        "pinot.broker.query.response.limit",
        about="Largest LIMIT and TOP; a query above it is refused, or limited with the next setting.",
        unit="rows",
        ge=1,
    )
    limit_override: Flag = setting(
        False, "pinot.broker.enable.query.limit.override", about="Lower LIMIT and TOP to the limit instead of refusing."
    )
    case_insensitive: Flag = setting(
        True,
        "enable.case.insensitive",
        "pinot.broker.enable.case.insensitive",
        about="Table and column names are case-insensitive in SQL; never in PQL.",
    )
    null_handling: Flag = setting(
        True,
        "pinot.broker.query.enable.null.handling",
        about="SQL: nulls are nulls (true), or default values (false). query.enableNullHandling of a table config and "
        "the query option enableNullHandling take precedence. PQL always reads default values.",
    )
    query_text_bytes_max: Size = setting(
        2 * MIB, "pinot.broker.query.maxTextBytes", about="Longest query text.", unit="bytes", ge=1, le=2 * MIB
    )
    constants_bytes_max: Size = setting(
        16 * MIB,
        "pinot.broker.query.constants.maxBytes",
        about="All values that functions make of the constants of one statement.",
        unit="bytes",
        ge=1_024,
    )
    constants_timeout_ms: WholeNumber = setting(
        2_000,
        "pinot.broker.query.constants.timeoutMs",
        about="Longest computation of the constants of one statement.",
        unit="ms",
        ge=1,
    )
    queries_max: WholeNumber = setting(256, "pinot.broker.query.maxConcurrent", about="Concurrent queries.", ge=1)
    queue_max: WholeNumber = setting(
        1_024, "pinot.broker.query.maxWaiting", about="Queued queries; more are refused with 211.", ge=0
    )
    server_response_bytes_max: Size = setting(
        256 * MIB,
        "pinot.broker.server.response.maxBytes",
        about="Largest answer of one server.",
        unit="bytes",
        ge=1_024,
        le=2 * GIB - 1,
    )
    memory_max_bytes: Size = setting(
        1 * GIB, "pinot.broker.query.memory.maxBytes", about="Memory for merging one query.", unit="bytes", ge=1 * MIB
    )
    threads: WholeNumber = setting(
        2, "pinot.broker.threads", about="Threads that compile queries and merge answers.", ge=1, le=256
    )


class ServerSettings(ProcessSettings):
    """Settings of a server."""

    role: ClassVar[str] = "server"

    host: str = setting(
        "127.0.0.1",
        "pinot.server.netty.host",
        "pinotpy.host",
        about="Address that the server listens on.",
        min_length=1,
    )
    port: WholeNumber = setting(
        8098,
        "pinot.server.netty.port",
        "pinot.server.grpc.port",
        about="Query port: gRPC, or frames where grpcio is not installed; 0 picks a free one.",
        ge=0,
        le=65535,
    )
    frames: bool = setting(
        True,
        "pinot.server.frames.enabled",
        about="Accept queries as frames on plain connections, at a tenth of gRPC's cost.",
    )
    frame_port: WholeNumber = setting(
        0,
        "pinot.server.frames.port",
        about="Port for frames beside gRPC; 0 picks a free one, or none if the query port is advertised as another.",
        ge=0,
        le=65535,
    )
    admin_port: WholeNumber = setting(
        8097, "pinot.server.adminapi.port", about="REST port; 0 picks a free one.", ge=0, le=65535
    )
    data_dir: Path = setting(
        Path("pinotpy-data/server/index"), "pinot.server.instance.dataDir", about="Folder of loaded segments."
    )
    segment_dir: Path | None = setting(
        None,
        "pinot.server.instance.segmentTarDir",
        about="Download folder, exclusive to this server; default: within the data folder.",
    )
    bad_segment_wait_ms: WholeNumber = setting(
        60_000,
        "pinotpy.server.readiness.badSegmentWaitMs",
        about="How long a segment in ERROR that no other server has keeps this one from being ready.",
        unit="ms",
        ge=0,
    )
    left_over_wait_ms: WholeNumber = setting(
        3_600_000,
        "pinotpy.server.leftOverSegments.waitMs",
        about="How long segments stay in the data folder that the cluster does not assign to this server (their table "
        "was deleted while the server was down); 0: for ever.",
        unit="ms",
        ge=0,
    )
    segment_builds_max: WholeNumber = setting(
        0,
        "pinot.server.instance.realtime.max.parallel.segment.builds",
        about="Segments of streams that are built at once; 0: as many as threads.",
        ge=0,
    )
    realtime_offheap: Flag = setting(
        True,
        "pinot.server.instance.realtime.alloc.offheap",
        about="Accepted without effect: rows of streams always lie outside of the interpreter's heap.",
    )
    realtime_direct: Flag = setting(
        True,
        "pinot.server.instance.realtime.alloc.offheap.direct",
        about="Accepted without effect: rows of streams always lie in memory, not in mapped files.",
    )
    ingest_workers: WholeNumber = setting(
        1,
        "pinot.server.instance.realtime.ingest.workers",
        about="Processes that read streams, begun with the first partition; 0: threads of the server read them.",
        ge=0,
    )
    row_memory_max_bytes: WholeNumber = setting(
        0,
        "pinotpy.server.realtime.memory.maxBytes",
        about="Memory that rows of streams may take until they are sealed: from 80 % of it on the largest consuming "
        "segments are committed early, when all is taken nothing is read until commits have freed some; 0: half of the "
        "server's memory budget.",
        unit="bytes",
        ge=0,
    )
    split_commit: bool = setting(
        True,
        "pinot.server.instance.enable.split.commit",
        about="Upload the file of a committed segment apart from the messages about it.",
    )
    commit_metadata: bool = setting(
        True,
        "pinot.server.instance.enable.commitend.metadata",
        about="Send a committed segment's metadata, so that the controller need not read its file.",
    )
    timeout_ms: WholeNumber = setting(
        15_000,
        "pinot.server.query.executor.timeout",
        about="Maximum query time, whatever a broker requests.",
        unit="ms",
        ge=1,
    )
    queries_max: WholeNumber = setting(
        16,
        "pinot.query.scheduler.query_runner_threads",
        about="Concurrently executing queries; they share the kernel threads in quanta.",
        ge=1,
        le=10_000,
    )
    queue_max: WholeNumber = setting(
        1_024, "pinot.query.scheduler.maxWaiting", about="Queued queries; more are refused with 211.", ge=0
    )
    threads: WholeNumber = setting(
        0, "pinot.query.scheduler.query_worker_threads", about="Kernel threads; 0 = one per core.", ge=0, le=1_024
    )
    query_memory_max_bytes: Size = setting(
        2 * GIB, "pinot.server.query.memory.maxBytes", about="Memory of one query.", unit="bytes", ge=1 * MIB
    )
    groups_max: WholeNumber = setting(
        0,
        "pinot.server.query.executor.num.groups.limit",
        about="Maximum groups of one query on this server, 0 = limited by memory only; a query may lower it, and the "
        "answer says if it was reached.",
        ge=0,
    )
    global_dictionary_max_bytes: Size = setting(
        512 * MIB,
        "pinot.server.query.globalDictionary.maxBytes",
        about="Memory for shared dictionaries of grouped columns over all segments; 0 turns them off, and groups are "
        "then merged by value.",
        unit="bytes",
        ge=0,
    )
    decoded_columns_max_bytes: Size = setting(
        1 * GIB,
        "pinot.server.query.decodedColumns.maxBytes",
        about="Memory for decoded compressed and fixed-bit columns, and for codes of raw text; least recently used "
        "entries are evicted first.",
        unit="bytes",
        ge=0,
    )
    response_bytes_max: Size = setting(
        256 * MIB,
        "pinot.server.grpc.maxResponseBytes",
        about="Maximum size of an answer.",
        unit="bytes",
        ge=1_024,
        le=2 * GIB - 1,
    )
    transition_threads: WholeNumber = setting(
        4, "pinot.server.helix.transition.threads", about="Segments loaded or dropped concurrently.", ge=1, le=256
    )
    download_timeout_ms: WholeNumber = setting(
        600_000,
        "pinot.server.segment.download.timeoutMs",
        about="Longest download from one controller.",
        unit="ms",
        ge=1_000,
    )
    download_retries_max: WholeNumber = setting(
        8, "pinot.server.segment.fetcher.http.retry.count", about="Retries of a failed download.", ge=0, le=100
    )
    peer_archives_max: WholeNumber = setting(
        2,
        "pinotpy.server.segment.peerArchivesMax",
        about="Archives given concurrently to servers and controllers whose deep store lacks a good one; 0: none.",
        ge=0,
        le=256,
    )
    storage_factory: Texts = settings_below(
        "pinot.server.storage.factory", "pinotpy.storage.factory", about=STORAGE_FACTORY
    )
    segment_fetcher: Texts = settings_below(
        "pinot.server.segment.fetcher", "pinotpy.segment.fetcher.protocol", about=SEGMENT_FETCHER
    )
    segment_uris_allowed: Names = setting(
        (), "pinotpy.segment.fetcher.allowedUris", "pinot.server.segment.fetcher.allowed.uris", about=URIS_ALLOWED
    )
    crypter: Texts = settings_below("pinot.server.crypter", "pinotpy.crypter", about=CRYPTER)
    archive_entries_max: WholeNumber = setting(
        1_000, "pinot.server.segment.archive.maxEntries", about="Maximum files in a downloaded segment.", ge=1
    )
    archive_unpacked_bytes_max: Size = setting(
        40 * GIB,
        "pinot.server.segment.archive.maxUnpackedBytes",
        about="Maximum unpacked size of a segment.",
        unit="bytes",
        ge=1_024,
    )
    scrub_period_s: WholeNumber = setting(
        3_600,
        "pinot.server.segment.scrub.periodInSeconds",
        about="How often the files of each loaded segment are re-read and compared with their checksums, as far as "
        "maxBytesPerSecond allows it; 0: only after a query met damage.",
        unit="s",
        ge=0,
    )
    scrub_rate: Size = setting(
        64 * MIB,
        "pinot.server.segment.scrub.maxBytesPerSecond",
        about="Rate of that reading, per second.",
        unit="bytes",
        ge=64 * 1024,
    )
    drain_timeout_ms: WholeNumber = setting(
        5_000,
        "pinot.server.shutdown.drainMs",
        about="At shutdown: time for brokers to switch to other replicas before the session ends.",
        unit="ms",
        ge=0,
    )
