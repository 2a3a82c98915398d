"""Proves who gets in and who may do what: rights with wildcards, passwords, tokens, expiry, revocation, throttling,
reload, the cluster token; on a users file written by the functions that the CLI calls, with a manual clock."""

from __future__ import annotations

import os
import stat
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from pinotpy.clock import ManualClock
from pinotpy.errors import (
    AccessDeniedError,
    AlreadyExistsError,
    AuthenticationError,
    Fault,
    InvalidConfigError,
    NotFoundError,
    UserError,
)
from pinotpy.service import users_file
from pinotpy.service.access import AllowAll, Credentials, UsersFileAccess, read_cluster_token, require
from pinotpy.service.errors import LoginThrottledError, StartError
from pinotpy.service.rights import (
    ALL_RIGHTS,
    ALL_TABLES,
    CLUSTER,
    Action,
    Principal,
    PrincipalKind,
    Resource,
    ResourceKind,
    Rights,
    table_resource,
)
from pinotpy.service.users_file import (
    PasswordHash,
    Users,
    add_token,
    add_user,
    hash_password,
    read_users,
    remove_user,
    revoke_token,
)

READ_FLIGHTS = Rights(tables=(("flights", frozenset({Action.READ})),))
PASSWORD = "correct horse"


@pytest.fixture(autouse=True)
def cheap_scrypt(monkeypatch: pytest.MonkeyPatch) -> None:
    """The real cost is measured in one test; the others take a small one."""
    monkeypatch.setattr(users_file, "SCRYPT_N", 1 << 4)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "users.json"
    add_user(path, "alice", PASSWORD, READ_FLIGHTS)
    add_user(path, "root", "root password", ALL_RIGHTS)
    yield path


def basic(user: str, password: str, peer: str = "10.0.0.1") -> Credentials:
    return Credentials(b"Basic " + b64encode(f"{user}:{password}".encode()), b"", peer)


def bearer(token: str, peer: str = "10.0.0.1") -> Credentials:
    return Credentials(f"Bearer {token}".encode(), b"", peer)


def rights(**tables: str) -> Rights:
    return Rights(
        tables=tuple(
            (name.replace("STAR", "*"), frozenset(Action(a) for a in actions.split()))
            for name, actions in tables.items()
        )
    )


@pytest.mark.parametrize(
    ("given", "action", "table", "expected"),
    [
        (rights(flights="READ"), Action.READ, "flights", True),
        (rights(flights="READ"), Action.READ, "flights_OFFLINE", True),
        (rights(flights="READ"), Action.WRITE, "flights", False),
        (rights(flights="READ"), Action.READ, "flights2", False),
        (rights(flights="READ"), Action.READ, "*", False),
        (rights(flightsSTAR="READ"), Action.READ, "flights2", True),
        (rights(flightsSTAR="READ"), Action.READ, "my_flights", False),
        (rights(evSTARus="WRITE"), Action.WRITE, "ev_clicks_us", True),
        (rights(evSTARus="WRITE"), Action.WRITE, "ev_clicks_eu", False),
        (rights(STAR="READ"), Action.READ, "anything", True),
        (rights(STAR="READ"), Action.READ, "*", True),
        (rights(flights="ADMIN"), Action.READ, "flights", True),
        (rights(flights="ADMIN"), Action.WRITE, "flights", True),
        (rights(flights="WRITE"), Action.READ, "flights", False),
        (rights(STAR="READ", flights="WRITE"), Action.WRITE, "flights", True),
        (Rights(), Action.READ, "flights", False),
        (Rights(cluster=frozenset({Action.ADMIN})), Action.READ, "flights", False),
    ],
)
def test_rights_on_tables_are_by_raw_name_with_wildcards_and_denied_by_default(
    given: Rights, action: Action, table: str, expected: bool
) -> None:
    assert given.allows(action, table_resource(table)) is expected


def test_a_pattern_is_text_but_for_the_star() -> None:
    assert not Rights(tables=(("a.c", frozenset({Action.READ})),)).allows(Action.READ, table_resource("abc"))
    assert not Rights(tables=(("[a-z]*", frozenset({Action.READ})),)).allows(Action.READ, table_resource("abc"))


def test_cluster_and_instance_rights_do_not_spill_over() -> None:
    given = Rights(cluster=frozenset({Action.READ}), instances=frozenset({Action.WRITE}))
    assert given.allows(Action.READ, CLUSTER) and not given.allows(Action.WRITE, CLUSTER)
    instance = Resource(ResourceKind.INSTANCE, "Server_a_1")
    assert given.allows(Action.WRITE, instance) and not given.allows(Action.READ, instance)


def test_a_right_password_gives_the_principal_with_its_rights(file: Path) -> None:
    access = UsersFileAccess(file)
    alice = access.authenticate(basic("alice", PASSWORD))
    assert (alice.name, alice.kind) == ("alice", PrincipalKind.USER)
    assert access.is_allowed(alice, Action.READ, table_resource("flights_REALTIME"))
    assert not access.is_allowed(alice, Action.READ, table_resource("salaries"))
    assert not access.is_allowed(alice, Action.READ, ALL_TABLES)
    assert access.is_allowed(access.authenticate(basic("root", "root password")), Action.ADMIN, CLUSTER)


def test_a_denial_is_the_same_for_a_table_that_is_and_one_that_is_not(file: Path) -> None:
    access = UsersFileAccess(file)
    alice = access.authenticate(basic("alice", PASSWORD))
    with pytest.raises(AccessDeniedError) as caught:
        require(access, alice, Action.READ, table_resource("salaries"))
    assert caught.value.http_status == 403 and "salaries" in str(caught.value) and "exist" not in str(caught.value)


@pytest.mark.parametrize(
    "credentials",
    [
        Credentials(),
        basic("alice", "wrong password"),
        basic("alice", ""),
        basic("nobody", PASSWORD),
        basic("alice", PASSWORD + " "),
        Credentials(b"Basic not-base64!"),
        Credentials(b"Basic " + b64encode(b"no colon")),
        Credentials(b"Basic " + b64encode(b"\xff\xfe:x")),
        Credentials(b"Digest username=alice"),
        Credentials(b"Bearer pt_0123456789abcdef_" + b"A" * 43),
        Credentials(b"Bearer "),
        Credentials(b"x" * 5000),
    ],
)
def test_wrong_credentials_are_refused(file: Path, credentials: Credentials) -> None:
    with pytest.raises(AuthenticationError) as caught:
        UsersFileAccess(file).authenticate(credentials)
    assert caught.value.http_status == 401 and PASSWORD not in str(caught.value)


def test_a_repeated_authorization_header_is_a_wrong_one(file: Path) -> None:
    good = basic("alice", PASSWORD).authorization
    credentials = Credentials.from_headers([(b"authorization", good), (b"authorization", good)], "10.0.0.1")
    with pytest.raises(AuthenticationError):
        UsersFileAccess(file).authenticate(credentials)


def test_a_verified_password_is_recalled_without_hashing_and_not_kept_in_the_clear(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = ManualClock()
    access = UsersFileAccess(file, clock=clock)
    assert access.recall(basic("alice", PASSWORD)) is None
    access.authenticate(basic("alice", PASSWORD))
    monkeypatch.setattr(PasswordHash, "verify", lambda *_: pytest.fail("hashed again"))
    recalled = access.recall(basic("alice", PASSWORD))
    assert recalled is not None and recalled.name == "alice"
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"
    assert access.recall(basic("alice", "other")) is None
    assert all(PASSWORD.encode() not in key and b64encode(PASSWORD.encode()) not in key for key in access._cache)
    clock.advance(86_400_001)
    assert access.recall(basic("alice", PASSWORD)) is None


def test_failed_logins_are_slowed_down_for_that_user_and_address_only(file: Path) -> None:
    clock = ManualClock()
    access = UsersFileAccess(file, clock=clock)
    for _ in range(5):
        with pytest.raises(AuthenticationError):
            access.authenticate(basic("alice", "guess"))
    with pytest.raises(LoginThrottledError) as caught:
        access.authenticate(basic("alice", PASSWORD))
    assert caught.value.http_status == 429 and caught.value.retry_after_s == 1
    assert access.authenticate(basic("root", "root password")).name == "root"
    assert access.authenticate(basic("alice", PASSWORD, peer="10.0.0.2")).name == "alice"
    clock.advance(1_000)
    with pytest.raises(AuthenticationError):
        access.authenticate(basic("alice", "guess"))
    with pytest.raises(LoginThrottledError) as caught:
        access.authenticate(basic("alice", "guess"))
    assert caught.value.retry_after_s == 2
    clock.advance(2_000)
    # What was verified before from elsewhere is recalled; a success here clears the count.
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"


def test_an_address_that_tries_many_names_is_told_to_wait_and_keeps_nobody_out(file: Path) -> None:
    token = add_token(file, "alice")
    access = UsersFileAccess(file, clock=ManualClock())
    for i in range(50):
        with pytest.raises(AuthenticationError):
            access.authenticate(basic(f"user{i}", "guess"))
    for credentials in (basic("somebody", "guess"), bearer("pt_0123456789abcdef_" + "A" * 43)):
        with pytest.raises(LoginThrottledError):
            access.authenticate(credentials)
    assert access.authenticate(bearer(token)).name == "alice"
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"
    assert access.authenticate(basic("alice", PASSWORD, peer="10.0.0.2")).name == "alice"


def test_failures_with_tokens_keep_no_right_token_out(file: Path) -> None:
    token = add_token(file, "alice")
    access = UsersFileAccess(file, clock=ManualClock())
    for _ in range(60):
        with pytest.raises((AuthenticationError, LoginThrottledError)):
            access.authenticate(bearer(token[:-4] + "AAAA"))
    assert access.authenticate(bearer(token)).name == "alice"


def test_who_was_let_in_stays_known_when_the_name_is_tried_by_others_and_the_file_changes(file: Path) -> None:
    clock = ManualClock()
    access = UsersFileAccess(file, clock=clock)
    access.authenticate(basic("alice", PASSWORD))
    for _ in range(9):
        with pytest.raises((AuthenticationError, LoginThrottledError)):
            access.authenticate(basic("alice", "guess"))
    add_user(file, "bob", "bob's password", READ_FLIGHTS)
    clock.advance(2_000)
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"


def test_a_bearer_token_acts_for_its_user_until_it_expires(file: Path) -> None:
    clock = ManualClock()
    token = add_token(file, "alice", expires_at_ms=clock.now_ms() + 60_000, comment="dashboard")
    access = UsersFileAccess(file, clock=clock)
    principal = access.authenticate(bearer(token))
    assert (principal.name, principal.kind) == ("alice", PrincipalKind.TOKEN)
    assert principal.may(Action.READ, table_resource("flights"))
    clock.advance(59_999)
    assert access.recall(bearer(token)) is not None
    clock.advance(1)
    assert access.recall(bearer(token)) is None
    with pytest.raises(AuthenticationError, match="expired"):
        access.authenticate(bearer(token))


def test_a_token_can_have_fewer_rights_than_its_user_never_more(file: Path) -> None:
    narrow = add_token(file, "root", rights=READ_FLIGHTS)
    wide = add_token(file, "alice", rights=ALL_RIGHTS)
    access = UsersFileAccess(file)
    assert access.authenticate(bearer(narrow)).may(Action.READ, table_resource("flights"))
    assert not access.authenticate(bearer(narrow)).may(Action.WRITE, table_resource("flights"))
    assert not access.authenticate(bearer(wide)).may(Action.READ, table_resource("salaries"))


def test_a_token_with_one_character_changed_is_refused(file: Path) -> None:
    token = add_token(file, "alice")
    access = UsersFileAccess(file)
    changed = token[:-1] + ("A" if token[-1] != "A" else "B")
    with pytest.raises(AuthenticationError):
        access.authenticate(bearer(changed))


def test_revoked_tokens_and_removed_users_are_out_within_a_second(file: Path) -> None:
    clock = ManualClock()
    token = add_token(file, "alice")
    access = UsersFileAccess(file, clock=clock)
    access.authenticate(bearer(token))
    access.authenticate(basic("alice", PASSWORD))
    revoke_token(file, token.split("_")[1])
    clock.advance(1_000)
    with pytest.raises(AuthenticationError):
        access.authenticate(bearer(token))
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"
    remove_user(file, "alice")
    clock.advance(1_000)
    assert access.recall(basic("alice", PASSWORD)) is None
    with pytest.raises(AuthenticationError):
        access.authenticate(basic("alice", PASSWORD))


def test_removing_a_user_removes_its_tokens(file: Path) -> None:
    add_token(file, "alice")
    add_token(file, "root")
    remove_user(file, "alice")
    assert [token.user for token in read_users(file).tokens.values()] == ["root"]


def test_a_spoilt_file_keeps_the_last_good_users_and_a_missing_one_locks_all_out(file: Path) -> None:
    clock = ManualClock()
    access = UsersFileAccess(file, clock=clock)
    good = file.read_bytes()
    file.write_bytes(good[: len(good) // 2])
    clock.advance(1_000)
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"
    file.unlink()
    clock.advance(1_000)
    with pytest.raises(AuthenticationError):
        access.authenticate(basic("alice", PASSWORD))
    file.write_bytes(good)
    clock.advance(1_000)
    assert access.authenticate(basic("alice", PASSWORD)).name == "alice"


def test_the_file_holds_no_secret_and_only_its_owner_reads_it(file: Path) -> None:
    token = add_token(file, "alice")
    content = file.read_text()
    assert PASSWORD not in content and token not in content and token.split("_", 2)[2] not in content
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not [name for name in os.listdir(file.parent) if name not in (file.name, f".{file.name}.lock")]


def test_users_survive_a_write_and_a_read(file: Path) -> None:
    add_token(file, "alice", expires_at_ms=5, rights=READ_FLIGHTS, comment="c")
    users = read_users(file)
    file.write_bytes(Users(users.users, users.tokens).to_json())
    assert read_users(file) == users


def test_adding_refuses_what_exists_and_what_is_too_weak(file: Path) -> None:
    with pytest.raises(AlreadyExistsError):
        add_user(file, "alice", "another password", READ_FLIGHTS)
    add_user(file, "alice", "another password", READ_FLIGHTS, replace_existing=True)
    assert UsersFileAccess(file).authenticate(basic("alice", "another password")).name == "alice"
    with pytest.raises(UserError, match="8 characters"):
        add_user(file, "bob", "short", READ_FLIGHTS)
    for name in ("", "a b", "a:b", "../x", "x" * 101):
        with pytest.raises(UserError, match="user name"):
            add_user(file, name, "long enough", READ_FLIGHTS)
    with pytest.raises(NotFoundError):
        add_token(file, "nobody")
    with pytest.raises(NotFoundError):
        revoke_token(file, "0123456789abcdef")


def test_every_fault_of_a_users_file_is_told_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "users.json"
    good = str(hash_password(PASSWORD))
    file.write_bytes(
        orjson.dumps(
            {
                "version": 1,
                "users": {
                    "a": {"password": "plain text"},
                    "b c": {"password": good},
                    "c": {"password": good, "rights": {"tables": {"t": ["FLY"]}, "cluster": "READ", "moon": []}},
                    "d": 7,
                    "e": {"password": good.replace("$16$", "$1048576$")},
                },
                "tokens": {
                    "t1": {"sha256": "xyz", "user": "c"},
                    "t2": {"sha256": "0" * 64, "user": "ghost"},
                    "t3": {"sha256": "0" * 64, "user": "c", "expiresAtMs": "soon"},
                },
            }
        )
    )
    with pytest.raises(InvalidConfigError) as caught:
        read_users(file)
    assert all(isinstance(fault, Fault) for fault in caught.value.faults)
    assert {fault.path for fault in caught.value.faults} == {
        "$.users.a.password",
        "$.users.b c",
        "$.users.c.rights.tables.t",
        "$.users.c.rights.cluster",
        "$.users.c.rights.moon",
        "$.users.d",
        "$.users.e.password",
        "$.tokens.t1.sha256",
        "$.tokens.t2.user",
        "$.tokens.t3.expiresAtMs",
    }


def test_a_missing_or_foreign_users_file_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="add-user"):
        UsersFileAccess(tmp_path / "none.json")
    (tmp_path / "x.json").write_text("{")
    with pytest.raises(InvalidConfigError, match="not JSON"):
        UsersFileAccess(tmp_path / "x.json")
    (tmp_path / "x.json").write_text("[]")
    with pytest.raises(InvalidConfigError, match="version"):
        UsersFileAccess(tmp_path / "x.json")


def test_the_cluster_token_makes_a_daemon_and_a_wrong_one_nothing(file: Path) -> None:
    token = "t" * 32
    for access in (UsersFileAccess(file, cluster_token=token), AllowAll(token)):
        daemon = access.authenticate(Credentials(cluster_token=token.encode()))
        assert daemon.kind is PrincipalKind.CLUSTER and daemon.may(Action.ADMIN, CLUSTER)
        with pytest.raises(AuthenticationError):
            access.authenticate(Credentials(cluster_token=b"u" * 32))
        assert access.recall(Credentials(cluster_token=b"u" * 32)) is None
    with pytest.raises(AuthenticationError):
        UsersFileAccess(file).authenticate(Credentials(cluster_token=token.encode()))


def test_a_cluster_token_file_must_hold_a_real_secret(tmp_path: Path) -> None:
    file = tmp_path / "token"
    with pytest.raises(StartError, match="cannot be read"):
        read_cluster_token(file)
    for content in ("", "short", "a" * 20 + " " + "b" * 20):
        file.write_text(content)
        with pytest.raises(StartError, match="32"):
            read_cluster_token(file)
    file.write_text("a" * 64 + "\n")
    assert read_cluster_token(file) == "a" * 64


def test_allow_all_allows_all_without_asking() -> None:
    access = AllowAll()
    anybody = access.recall(Credentials())
    assert anybody is not None and access.is_allowed(anybody, Action.ADMIN, ALL_TABLES) and access.is_open


def test_hashing_costs_what_the_documents_say() -> None:
    text = str(PasswordHash(1 << 15, 8, 1, b"s" * 16, b"d" * 32))
    assert text.startswith("scrypt$32768$8$1$") and PasswordHash.parse(text) is not None
    # RFC 7914, section 12: N=1024, r=8, p=16, first 32 of 64 bytes.
    from pinotpy.service.users_file import _scrypt

    assert (
        _scrypt(b"password", b"NaCl", 1024, 8, 16).hex()
        == "fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162"
    )


def test_a_principal_of_a_narrowed_token_needs_both_rights() -> None:
    both = Principal("a", PrincipalKind.TOKEN, READ_FLIGHTS, Rights(tables=(("*", frozenset({Action.READ})),)))
    assert both.may(Action.READ, table_resource("flights")) and not both.may(Action.READ, table_resource("other"))


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_files_that_others_may_write_are_refused(file: Path, tmp_path: Path, mode: int) -> None:
    token_file = tmp_path / "cluster.token"
    token_file.write_text("0123456789abcdef" * 4)
    for each in (file, token_file):
        each.chmod(mode)
    with pytest.raises(InvalidConfigError, match="can be written by others than its owner: chmod go-w it"):
        UsersFileAccess(file)
    with pytest.raises(StartError, match="can be written by others than its owner: chmod 600 it"):
        read_cluster_token(token_file)
