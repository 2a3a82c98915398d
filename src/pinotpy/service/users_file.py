"""The users file: names, password hashes, tokens and rights, as JSON that an operator can read.

{"version": 1,
 "users":  {"alice": {"password": "scrypt$32768$8$1$<salt>$<hash>", "rights": {"tables": {"flights": ["READ"]}}}},
 "tokens": {"3f…": {"sha256": "…", "user": "alice", "expiresAtMs": 1764000000000, "comment": "dashboard"}}}

No secret can be read back: passwords are kept as scrypt hashes with their own salt and cost, tokens (256 random bits,
so that a fast hash is enough) as SHA-256. A token acts with its user's rights, or with fewer when it has `rights`
itself. Every change is written to a temporary file and renamed, under a lock, readable by the owner only.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import re
import secrets
import stat
import tempfile
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

from pinotpy.clock import SystemClock
from pinotpy.errors import AlreadyExistsError, Fault, InvalidConfigError, NotFoundError, UserError
from pinotpy.service.errors import ConflictingChangeError
from pinotpy.service.rights import Rights

# 32 MiB and about 70 ms a check on one core: dear for a guesser, and paid once per login thanks to the cache in
# access.py.
SCRYPT_N, SCRYPT_R, SCRYPT_P = 1 << 15, 8, 1
# A file with absurd costs must not stall a daemon: 2^18 · 8 · 128 bytes = 256 MiB is the dearest hash that is accepted.
SCRYPT_N_MAX, SCRYPT_R_MAX, SCRYPT_P_MAX = 1 << 18, 16, 8
USERS_FILE_MAX_BYTES = 16 << 20
PASSWORD_MIN_CHARS, PASSWORD_MAX_BYTES = 8, 1024
LOCK_WAIT_S = 10.0
_USER_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.@+\-]{0,99}")
_TOKEN = re.compile(r"pt_([0-9a-f]{16})_([A-Za-z0-9_\-]{43})")


@dataclass(frozen=True, slots=True)
class PasswordHash:
    """An scrypt hash with its salt and cost."""

    n: int
    r: int
    p: int
    salt: bytes
    digest: bytes

    def verify(self, password: bytes) -> bool:
        """Whether `password` hashes to this; takes the full cost, compares in constant time."""
        return hmac.compare_digest(_scrypt(password, self.salt, self.n, self.r, self.p), self.digest)

    def __str__(self) -> str:
        return f"scrypt${self.n}${self.r}${self.p}${b64encode(self.salt).decode()}${b64encode(self.digest).decode()}"

    @staticmethod
    def parse(text: str) -> PasswordHash | None:
        """Read the text form, None if it is none or its cost is out of bounds."""
        parts = text.split("$")
        if len(parts) != 6 or parts[0] != "scrypt" or not all(cost.isdigit() and len(cost) < 8 for cost in parts[1:4]):
            return None
        n, r, p = (int(cost) for cost in parts[1:4])
        is_power_of_two = n > 1 and n & (n - 1) == 0
        if not (is_power_of_two and n <= SCRYPT_N_MAX and 1 <= r <= SCRYPT_R_MAX and 1 <= p <= SCRYPT_P_MAX):
            return None
        try:
            salt, digest = b64decode(parts[4], validate=True), b64decode(parts[5], validate=True)
        except ValueError:
            return None
        return PasswordHash(n, r, p, salt, digest) if len(salt) >= 16 and len(digest) == 32 else None


def _scrypt(password: bytes, salt: bytes, n: int, r: int, p: int) -> bytes:
    return hashlib.scrypt(password, salt=salt, n=n, r=r, p=p, maxmem=128 * r * (n + p + 2) + (1 << 20), dklen=32)


def hash_password(password: str) -> PasswordHash:
    """Hash a new password with a fresh salt. UserError if it is shorter than 8 characters or over 1,024 bytes."""
    encoded = password.encode()
    if len(password) < PASSWORD_MIN_CHARS or len(encoded) > PASSWORD_MAX_BYTES:
        raise UserError(
            f"a password needs {PASSWORD_MIN_CHARS} characters to {PASSWORD_MAX_BYTES} bytes, this one has "
            f"{len(password)} characters"
        )
    salt = secrets.token_bytes(16)
    return PasswordHash(SCRYPT_N, SCRYPT_R, SCRYPT_P, salt, _scrypt(encoded, salt, SCRYPT_N, SCRYPT_R, SCRYPT_P))


@dataclass(frozen=True, slots=True)
class User:
    """A name with a password and rights."""

    password: PasswordHash
    rights: Rights


@dataclass(frozen=True, slots=True)
class Token:
    """A bearer token: only its hash is known. `expires_at_ms` None = until revoked."""

    sha256: bytes
    user: str
    expires_at_ms: int | None = None
    rights: Rights | None = None
    comment: str = ""


@dataclass(frozen=True, slots=True)
class Users:
    """A whole users file."""

    users: Mapping[str, User] = field(default_factory=dict)
    tokens: Mapping[str, Token] = field(default_factory=dict)

    def to_json(self) -> bytes:
        """The file's bytes."""
        tokens: dict[str, dict[str, Any]] = {}
        for token_id, token in self.tokens.items():
            tokens[token_id] = {
                "sha256": token.sha256.hex(),
                "user": token.user,
                "expiresAtMs": token.expires_at_ms,
                "comment": token.comment,
            }
            if token.rights is not None:
                tokens[token_id]["rights"] = token.rights.to_json_dict()
        users = {
            name: {"password": str(user.password), "rights": user.rights.to_json_dict()}
            for name, user in self.users.items()
        }
        return orjson.dumps({"version": 1, "users": users, "tokens": tokens}, option=orjson.OPT_INDENT_2) + b"\n"


def parse_token(text: str) -> tuple[str, bytes] | None:
    """`pt_<id>_<secret>` → (id, SHA-256 of the whole text); None if it is no token of ours."""
    match = _TOKEN.fullmatch(text)
    return (match.group(1), hashlib.sha256(text.encode()).digest()) if match else None


# Who can write the file of users or the secret of the cluster is everybody.
WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH


def read_users(file: Path) -> Users:
    """Read and check a users file. Raises InvalidConfigError with every fault, NotFoundError if there is no file."""
    try:
        with file.open("rb") as stream:
            mode = os.fstat(stream.fileno()).st_mode
            content = stream.read(USERS_FILE_MAX_BYTES + 1)
    except FileNotFoundError:
        raise NotFoundError(f"no users file '{file}': create it with 'pinotpy add-user'") from None
    except OSError as problem:
        raise InvalidConfigError(f"users file '{file}' cannot be read: {problem.strerror}") from problem
    if mode & WRITABLE_BY_OTHERS:
        raise InvalidConfigError(f"users file '{file}' can be written by others than its owner: chmod go-w it")
    if len(content) > USERS_FILE_MAX_BYTES:
        raise InvalidConfigError(f"users file '{file}' is over {USERS_FILE_MAX_BYTES} bytes")
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as problem:
        raise InvalidConfigError(f"users file '{file}' is not JSON: {problem}") from None
    faults: list[Fault] = []
    users = _users_from_json(document, faults)
    if faults:
        raise InvalidConfigError(f"users file '{file}' has {len(faults)} faults", tuple(faults))
    return users


def _users_from_json(document: object, faults: list[Fault]) -> Users:
    if not isinstance(document, dict) or document.get("version") != 1:
        faults.append(
            Fault("$.version", repr(document.get("version") if isinstance(document, dict) else document)[:40], "1")
        )
        return Users()
    users: dict[str, User] = {}
    for name, entry in _entries(document, "users", faults):
        path = f"$.users.{name}"
        hashed = PasswordHash.parse(str(entry.get("password", "")))
        if hashed is None:
            faults.append(
                Fault(f"{path}.password", "no scrypt hash", "scrypt$n$r$p$salt$hash, as 'pinotpy add-user' writes it")
            )
        elif not _USER_NAME.fullmatch(name):
            faults.append(Fault(path, repr(name)[:80], "a user name: letters, digits and _ . @ + -, at most 100"))
        else:
            users[name] = User(hashed, Rights.from_json_dict(entry.get("rights", {}), f"{path}.rights", faults))
    tokens: dict[str, Token] = {}
    for token_id, entry in _entries(document, "tokens", faults):
        path = f"$.tokens.{token_id}"
        digest, owner, expires = str(entry.get("sha256", "")), str(entry.get("user", "")), entry.get("expiresAtMs")
        if not re.fullmatch(r"[0-9a-f]{64}", digest):
            faults.append(Fault(f"{path}.sha256", repr(digest)[:80], "64 hex digits"))
        elif owner not in users:
            faults.append(Fault(f"{path}.user", repr(owner)[:80], "the name of a user of this file"))
        elif expires is not None and type(expires) is not int:
            faults.append(Fault(f"{path}.expiresAtMs", repr(expires)[:80], "milliseconds since the epoch, or null"))
        else:
            narrowed = Rights.from_json_dict(entry["rights"], f"{path}.rights", faults) if "rights" in entry else None
            tokens[token_id] = Token(
                bytes.fromhex(digest), owner, expires, narrowed, str(entry.get("comment", ""))[:200]
            )
    return Users(users, tokens)


def _entries(document: dict[str, object], key: str, faults: list[Fault]) -> Iterator[tuple[str, dict[str, object]]]:
    section = document.get(key, {})
    if not isinstance(section, dict):
        faults.append(Fault(f"$.{key}", repr(section)[:80], "an object"))
        return
    for name, entry in section.items():
        if isinstance(entry, dict):
            yield name, entry
        else:
            faults.append(Fault(f"$.{key}.{name}", repr(entry)[:80], "an object"))


# --- changes, called by the CLI ------------------------------------------------------------------------------------


def add_user(file: Path, name: str, password: str, rights: Rights, *, replace_existing: bool = False) -> None:
    """Add a user, creating the file if needed. AlreadyExistsError unless `replace_existing`; UserError on a bad name or
    password.
    """
    if not _USER_NAME.fullmatch(name):
        raise UserError(f"'{name[:80]}' cannot be a user name: letters, digits and _ . @ + - are allowed, at most 100")
    user = User(hash_password(password), rights)

    def change(users: Users) -> Users:
        if name in users.users and not replace_existing:
            raise AlreadyExistsError(f"user '{name}' exists: replace it explicitly to change password and rights")
        return replace(users, users={**users.users, name: user})

    _change(file, change, create=True)


def remove_user(file: Path, name: str) -> None:
    """Remove a user and all tokens that act for it."""

    def change(users: Users) -> Users:
        if name not in users.users:
            raise NotFoundError(f"no user '{name}'")
        return Users(
            {k: v for k, v in users.users.items() if k != name},
            {k: v for k, v in users.tokens.items() if v.user != name},
        )

    _change(file, change)


def add_token(
    file: Path, user: str, *, expires_at_ms: int | None = None, rights: Rights | None = None, comment: str = ""
) -> str:
    """Make a token that acts for `user`; return its text, which is never shown again."""
    token_id = secrets.token_hex(8)
    text = f"pt_{token_id}_{secrets.token_urlsafe(32)}"
    token = Token(hashlib.sha256(text.encode()).digest(), user, expires_at_ms, rights, comment[:200])

    def change(users: Users) -> Users:
        if user not in users.users:
            raise NotFoundError(f"no user '{user}'")
        return replace(users, tokens={**users.tokens, token_id: token})

    _change(file, change)
    return text


def revoke_token(file: Path, token_id: str) -> None:
    """Remove a token by its id (the part after `pt_`)."""

    def change(users: Users) -> Users:
        if token_id not in users.tokens:
            raise NotFoundError(f"no token '{token_id}'")
        return replace(users, tokens={k: v for k, v in users.tokens.items() if k != token_id})

    _change(file, change)


def _change(file: Path, change: Callable[[Users], Users], *, create: bool = False) -> None:
    with _locked(file):
        users = Users() if create and not file.exists() else read_users(file)
        content = change(users).to_json()
        descriptor, name = tempfile.mkstemp(dir=file.parent, prefix=f".{file.name}.")  # created with mode 0600
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(name, file)
        except OSError:
            os.unlink(name)
            raise


@contextmanager
def _locked(file: Path) -> Iterator[None]:
    lock = file.with_name(f".{file.name}.lock")
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock_within(descriptor, file)
        yield
    finally:
        os.close(descriptor)


def _lock_within(descriptor: int, file: Path) -> None:
    clock, never = SystemClock(), threading.Event()
    deadline_ns = clock.monotonic_ns() + int(LOCK_WAIT_S * 1e9)
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if clock.monotonic_ns() > deadline_ns:
                raise ConflictingChangeError(
                    f"another change of '{file}' goes on since {LOCK_WAIT_S:.0f} s: try again"
                ) from None
        clock.wait(never, 0.02)
