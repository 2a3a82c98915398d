"""Proves that every request to a controller has a patience of its own with the store, as the settings say, also on the
threads that it hands work to; what runs beside requests has none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from controller_harness import Harness

from pinotpy.cluster.patience import patience_var
from pinotpy.controller.catalog import Catalog
from pinotpy.errors import ConnectionLostError


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/tables/parts"),
        ("GET", "/tables/parts/size"),
        ("PUT", "/tables/parts/state?state=disable&type=OFFLINE"),
    ],
)
def test_a_request_has_the_patience_of_the_settings_and_answers_503_with_the_reason(
    start: Callable[..., Harness], monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    harness = start(settings={"store_patience_ms": 1_234})
    harness.add_parts()
    found: list[float] = []

    def hang(*_: object, **__: object) -> None:
        patience = patience_var.get()
        assert patience is not None
        found.append(patience.left_s)
        patience.waited(600)
        raise ConnectionLostError("ZooKeeper does not answer")

    with monkeypatch.context() as patched:
        for name in ("table_config", "table_names", "ideal_state"):
            patched.setattr(Catalog, name, hang)
        for _ in range(2):
            answer = harness.http.request(method, path)
            assert answer.status_code == 503 and "ZooKeeper does not answer" in answer.json()["error"], answer.text
            assert answer.headers["retry-after"] == "1"
    assert found[0] == found[-1] == 1.234
    assert patience_var.get() is None
