"""Files of Amazon S3 and of whatever speaks its protocol: `s3://bucket/path`, `s3a://…`; through boto3, in this file
alone.

Configs are those of Pinot's S3PinotFS. Without keys, credentials come as for Amazon's own tools: environment, profile
files, the role of the machine.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Final

from pinotpy.errors import DataError, InvalidConfigError, NotFoundError, PinotError, RemoteError
from pinotpy.fs.configs import Configs
from pinotpy.fs.file_system import FileEntry, FoundByStat, TransferLimits
from pinotpy.fs.range_reader import open_ranges
from pinotpy.fs.uris import authority_and_path, masked, path_of_file, scheme_of
from pinotpy.fs.whole_files import COPY_BYTES, check_size, fetch_whole

_ATTEMPTS_MAX: Final = 3
_PART_BYTES: Final = 16 << 20  # of uploads; four at once are read from the file as they are sent
_COPY_PART_BYTES: Final = 1 << 30  # copied within the storage; over 5 GB it must be in parts
# 4xx that another try, or another moment, may mend.
_LATER: Final = (408, 409, 412, 429)


def open_s3(authority: str, configs: Mapping[str, str]) -> S3Files:
    """The bucket `authority`."""
    read = Configs("s3", configs)
    keys = {name: read.text(name) for name in ("accessKey", "secretKey", "sessionToken")}
    role = {
        "role_arn": read.text("roleArn"),
        "RoleSessionName": read.text("roleSessionName"),
        "ExternalId": read.text("externalId"),
    }
    region, endpoint, ca_file = read.text("region"), read.endpoint(), read.ca_file()
    options: dict[str, Any] = {
        "connect_timeout": read.seconds("connectTimeoutMs", 5_000),
        "read_timeout": read.seconds("requestTimeoutMs", 30_000),
        "s3": {"addressing_style": "path" if read.flag("pathStyleAccess", endpoint is not None) else "auto"},
        "is_anonymous": read.flag("anonymous", False),
    }
    read.flag("iamRoleBasedAccessEnabled", False)  # said by roleArn
    stored_with = {
        "ACL": None if read.flag("disableAcl", True) else "bucket-owner-full-control",
        "ServerSideEncryption": read.text("serverSideEncryption"),
        "SSEKMSKeyId": read.text("ssekmsKeyId"),
        "StorageClass": read.text("storageClass"),
    }
    if endpoint is not None:
        # An endpoint of one's own has no regions to look up.
        region = region or "us-east-1"
    if (keys["accessKey"] is None) != (keys["secretKey"] is None):
        read.fault("accessKey", "without the other", "accessKey and secretKey, or neither")
    if not authority:
        read.fault("uri", "no bucket", "s3://bucket/path")
    read.finish()
    client = _client(keys, role, region, endpoint, ca_file, options)
    secrets = [value for name, value in keys.items() if value is not None and name != "accessKey"]
    return S3Files(
        client, authority, {name: value for name, value in stored_with.items() if value is not None}, secrets
    )


def _client(
    keys: Mapping[str, str | None],
    role: Mapping[str, str | None],
    region: str | None,
    endpoint: str | None,
    ca_file: str | None,
    options: dict[str, Any],
) -> Any:
    import boto3
    import botocore.session
    from botocore import UNSIGNED
    from botocore.config import Config
    from botocore.credentials import AssumeRoleCredentialFetcher, DeferredRefreshableCredentials

    for name in ("boto3", "botocore", "s3transfer"):
        # Their debug lines have session tokens and signatures in them.
        logging.getLogger(name).setLevel(logging.INFO)
    session = boto3.session.Session(
        aws_access_key_id=keys["accessKey"],
        aws_secret_access_key=keys["secretKey"],
        aws_session_token=keys["sessionToken"],
        region_name=region,
    )
    if role["role_arn"] is not None:
        more = {name: role[name] for name in ("RoleSessionName", "ExternalId") if role[name] is not None}
        if session.get_credentials() is None:
            raise InvalidConfigError(
                f"no credentials to take the role '{role['role_arn']}' with: give accessKey and secretKey, or those "
                "of the machine"
            )
        fetcher = AssumeRoleCredentialFetcher(
            session._session.create_client, session.get_credentials(), role["role_arn"], extra_args=more
        )
        below = botocore.session.get_session()
        below._credentials = DeferredRefreshableCredentials(fetcher.fetch_credentials, "assume-role")
        session = boto3.session.Session(botocore_session=below, region_name=region)
    signature = {"signature_version": UNSIGNED} if options.pop("is_anonymous") else {}
    config = Config(
        **options,
        **signature,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS_MAX},
        # Storages other than Amazon's know the newer checksums not at all.
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        max_pool_connections=32,
    )
    return session.client("s3", endpoint_url=endpoint, config=config, verify=ca_file)


class S3Files(FoundByStat):
    """See `file_system.FileSystem`.

    Args:
        client: boto3's, safe to share between threads.
        stored_with: what every object is written with: encryption, storage class.
        secrets: values that no message may have.
    """

    def __init__(
        self, client: Any, bucket: str, stored_with: Mapping[str, str] | None = None, secrets: Sequence[str] = ()
    ) -> None:
        self._client, self._bucket = client, bucket
        self._stored_with = dict(stored_with or {})
        self._secrets = [secret for secret in secrets if len(secret) > 3]

    def list(self, uri: str) -> Iterator[FileEntry]:
        path = authority_and_path(uri)[1].rstrip("/")
        address = f"{scheme_of(uri)}://{self._bucket}/"
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=f"{path}/" if path else ""
        )
        is_empty = True
        with self._translated(uri):
            # S3 lists by the bytes of UTF-8, which is the order of code points.
            for page in pages:
                if "Name" not in page and "KeyCount" not in page:
                    raise _foreign(uri)  # an empty answer would be an empty bucket, else
                for item in page.get("Contents", ()):
                    if not item["Key"].endswith("/"):  # markers of folders, which other tools leave
                        is_empty = False
                        yield FileEntry(address + item["Key"], item["Size"], _ms(item["LastModified"]))
        if is_empty and path and not uri.endswith("/"):
            try:
                yield self.stat(uri)
            except NotFoundError:
                return

    def stat(self, uri: str) -> FileEntry:
        head = self._head(uri)
        return FileEntry(uri, head["ContentLength"], _ms(head["LastModified"]))

    def open(self, uri: str) -> BinaryIO:
        head = self._head(uri)

        def read_range(offset: int, length: int) -> bytes:
            with self._translated(uri):
                answer = self._get(uri, head["ETag"], Range=f"bytes={offset}-{offset + length - 1}")
                with answer["Body"] as body:  # which is the whole file where the range is ignored
                    content: bytes = body.read(length + 1)
            return content

        return open_ranges(uri, head["ContentLength"], read_range)

    def fetch(self, uri: str, target: Path, limits: TransferLimits | None = None) -> FileEntry:
        head, limits = self._head(uri), limits or TransferLimits()
        check_size(head["ContentLength"], limits, uri)
        with self._translated(uri):
            body = self._get(uri, head["ETag"])["Body"]
        try:
            fetch_whole(self._chunks(uri, body), target, limits, uri, head["ContentLength"])
        finally:
            body.close()
        return FileEntry(uri, head["ContentLength"], _ms(head["LastModified"]))

    def put(self, uri: str, source: Path) -> FileEntry:
        from boto3.s3.transfer import TransferConfig

        key = path_of_file(uri)
        if not source.is_file():
            raise NotFoundError(f"no file '{source}'")
        config = TransferConfig(multipart_threshold=_PART_BYTES, multipart_chunksize=_PART_BYTES, max_concurrency=4)
        with self._translated(uri):
            # What breaks off is taken back: an object appears with its last part.
            self._client.upload_file(str(source), self._bucket, key, ExtraArgs=self._stored_with or None, Config=config)
        return self.stat(uri)

    def move(self, uri: str, new_uri: str) -> FileEntry:
        from boto3.s3.transfer import TransferConfig

        key, new_key = path_of_file(uri), path_of_file(new_uri)
        self._head(uri)
        if key == new_key:
            return self.stat(uri)
        config = TransferConfig(multipart_threshold=_COPY_PART_BYTES, multipart_chunksize=_COPY_PART_BYTES)
        with self._translated(uri):
            source = {"Bucket": self._bucket, "Key": key}
            self._client.copy(source, self._bucket, new_key, ExtraArgs=self._stored_with or None, Config=config)
            self._client.delete_object(Bucket=self._bucket, Key=key)
        return self.stat(new_uri)

    def delete(self, uri: str) -> bool:
        key = path_of_file(uri)
        if not self.exists(uri):
            return False
        with self._translated(uri):
            self._client.delete_object(Bucket=self._bucket, Key=key)
        return True

    def _head(self, uri: str) -> Any:
        key = authority_and_path(uri)[1]
        if not key or key.endswith("/"):
            raise NotFoundError(f"'{masked(uri)}' is no file", uri=masked(uri))
        with self._translated(uri):
            head = self._client.head_object(Bucket=self._bucket, Key=key)
        if not {"ContentLength", "ETag", "LastModified"} <= set(head):
            raise _foreign(uri)
        return head

    def _get(self, uri: str, etag: str, **more: str) -> Any:
        # Of this version only: pieces of two are no file.
        return self._client.get_object(Bucket=self._bucket, Key=authority_and_path(uri)[1], IfMatch=etag, **more)

    def _chunks(self, uri: str, body: Any) -> Iterator[bytes]:
        while True:
            with self._translated(uri):
                chunk: bytes = body.read(COPY_BYTES)
            if not chunk:
                return
            yield chunk

    @contextmanager
    def _translated(self, uri: str) -> Iterator[None]:
        from boto3.exceptions import Boto3Error
        from botocore.exceptions import (
            BotoCoreError,
            ClientError,
            NoCredentialsError,
            ParamValidationError,
            PartialCredentialsError,
        )

        try:
            yield
        except PinotError:
            raise
        except ClientError as error:
            raise self._refusal(uri, error) from None
        except RecursionError:
            raise self._redirected(uri) from None
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise DataError(f"'{masked(uri)}': no credentials for S3: {self._shown(error)}", uri=masked(uri)) from None
        except ParamValidationError as error:
            raise DataError(
                f"S3 knows no such name as '{masked(uri)}': {self._shown(error)}", uri=masked(uri)
            ) from None
        except (BotoCoreError, Boto3Error, OSError) as error:
            below = error.__cause__ or error.__context__
            if isinstance(below, ClientError):
                raise self._refusal(uri, below) from None
            while below is not None:
                if isinstance(below, RecursionError):
                    raise self._redirected(uri) from None
                below = below.__cause__ or below.__context__
            raise RemoteError(
                f"S3 failed on '{masked(uri)}': {type(error).__name__}: {self._shown(error)}", uri=masked(uri)
            ) from None

    def _redirected(self, uri: str) -> PinotError:
        # The library takes every redirect for one to another region, also of what knows none, until the stack is full.
        shown = masked(uri)
        return DataError(
            f"'{shown}': the endpoint of S3 redirects, which is no part of its protocol: name the address that it "
            "leads to",
            uri=shown,
        )

    def _refusal(self, uri: str, error: Any) -> PinotError:
        code = str(error.response.get("Error", {}).get("Code", ""))
        status = int(error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0))
        shown = masked(uri)
        if code in ("404", "NoSuchKey", "NotFound"):
            return NotFoundError(f"no file '{shown}'", uri=shown)
        if code == "NoSuchBucket":
            return DataError(f"'{shown}': no bucket '{self._bucket}'", uri=shown)
        if status == 412:
            return RemoteError(f"'{shown}' was replaced while it was read: try again", uri=shown)
        if 400 <= status < 500 and status not in _LATER:
            return DataError(
                f"S3 refuses '{shown}' with {code}: {self._shown(error)}: check credentials, rights and name", uri=shown
            )
        return RemoteError(f"S3 failed on '{shown}' with {code or status}: {self._shown(error)}", uri=shown)

    def _shown(self, error: BaseException) -> str:
        text = str(error)
        for secret in self._secrets:
            text = text.replace(secret, "*****")
        return re.sub(r"\s+", " ", text)[:400]


def _foreign(uri: str) -> RemoteError:
    return RemoteError(
        f"'{masked(uri)}' was answered by something that does not speak S3's protocol: check the endpoint",
        uri=masked(uri),
    )


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)
