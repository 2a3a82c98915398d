"""Proves that a server has the kernels of the first queries before it joins and the others behind that, and that the
log, health and metrics tell how far it is; that one with a filled cache says nothing; and that its end stops compiling.
The run of a stage is a twin that the test controls; the real one: tests/unit/kernels/test_compiling.py.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import httpx
import pytest

from pinotpy.clock import ManualClock
from pinotpy.kernels.compiling import Stage, marker
from pinotpy.kernels.kernel_names import Kernel
from pinotpy.server.kernel_warm_up import TELL_EVERY_S, TELL_OTHERS_EVERY_S, KernelWarmUp
from pinotpy.server.metrics import ServerMetrics
from pinotpy.server.readiness import Readiness
from pinotpy.server.service import ServerParts
from pinotpy.service.access import AllowAll
from pinotpy.service.http import build_app
from pinotpy.service.http_server import serve
from pinotpy.service.metric_catalogue import SERVER_METRICS
from pinotpy.service.metrics import Metrics

FIRST, OTHER = Kernel("room.file", "first"), Kernel("room.file", "other")


class RunTwin:
    """Compiles when it is told to."""

    def __init__(self, folder: Path, stage: Stage, tell: Callable[[int, int], None], *, is_idle: bool) -> None:
        self.stage, self.tell, self.is_idle = stage, tell, is_idle
        self.failures: dict[Kernel, str] = {}
        self.begun, self.release, self.is_ended = threading.Event(), threading.Event(), False

    def run(self) -> bool:
        self.begun.set()
        assert self.release.wait(60)
        return not self.is_ended

    def end(self) -> None:
        self.is_ended = True
        self.release.set()


class Scene:
    def __init__(self, folder: Path) -> None:
        self.clock = ManualClock()
        self.runs: dict[Stage, RunTwin] = {}
        self.loaded: list[Kernel] = []
        self.told: list[tuple[int, int]] = []
        self.num_warmed = 0
        self.metrics = Metrics("server", SERVER_METRICS)
        self.warm_up = KernelWarmUp(
            self.clock,
            self._tell,
            folder=folder,
            warm=self._warm,
            make_run=self._make_run,
            load=self.loaded.append,
        )

    def _tell(self, done: int, total: int) -> None:
        self.told.append((done, total))
        ServerMetrics(self.metrics).kernels_compiled(done, total)

    def _warm(self) -> None:
        self.num_warmed += 1

    def _make_run(self, *arguments: Any, **named: Any) -> RunTwin:
        run = RunTwin(*arguments, **named)
        self.runs[run.stage] = run
        return run


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.setattr(Stage, "kernels", property(lambda stage: (FIRST,) if stage is Stage.FIRST else (FIRST, OTHER)))
    scene = Scene(tmp_path)
    yield scene
    scene.warm_up.end()


def test_the_first_kernels_come_before_and_the_others_behind(
    scene: Scene, caplog: pytest.LogCaptureFixture, eventually: Callable[..., float]
) -> None:
    caplog.set_level(logging.INFO)
    scene.warm_up.start()
    waiting = threading.Thread(target=scene.warm_up.wait)
    waiting.start()
    eventually(lambda: Stage.FIRST in scene.runs and scene.runs[Stage.FIRST].begun.is_set())
    first = scene.runs[Stage.FIRST]
    first.tell(37, 100)
    assert not first.is_idle and scene.told == [(37, 100)]
    assert scene.warm_up.told() == "kernels that the first queries need are being compiled, once for this CPU: 37 %"

    def is_logged() -> bool:
        scene.clock.advance(int(TELL_EVERY_S * 1000))
        return "compiling kernels, once for this CPU: 37 %" in caplog.text

    eventually(is_logged)
    assert waiting.is_alive() and not scene.loaded
    first.release.set()
    waiting.join(60)
    assert not waiting.is_alive() and scene.loaded == [FIRST] and scene.warm_up.told() == ""
    assert list(scene.runs) == [Stage.FIRST] and not scene.num_warmed

    scene.warm_up.follow()
    eventually(lambda: Stage.ALL in scene.runs and scene.runs[Stage.ALL].begun.is_set())
    others = scene.runs[Stage.ALL]
    others.tell(150, 200)
    assert others.is_idle and scene.warm_up.told().startswith("the other kernels are being compiled")

    def is_logged_again() -> bool:
        scene.clock.advance(int(TELL_OTHERS_EVERY_S * 1000))
        return "kernels=150 of=200" in caplog.text

    eventually(is_logged_again)
    others.release.set()
    eventually(lambda: "all kernels are compiled" in caplog.text)
    assert scene.loaded == [FIRST, FIRST, OTHER]


def test_health_and_metrics_of_a_server_that_compiles_say_how_far_it_is(
    scene: Scene, eventually: Callable[..., float]
) -> None:
    """What a server that has not joined answers, over HTTP."""
    parts = cast(ServerParts, SimpleNamespace(_warm=scene.warm_up, _readiness=None))
    app = build_app(
        "server",
        [],
        access=AllowAll(),
        metrics=scene.metrics,
        ready=lambda: ServerParts._not_ready(parts),
        remark=lambda: ServerParts._remark(parts),
    )
    server = serve(app, "127.0.0.1", 0)
    try:
        with httpx.Client(base_url=server.url, timeout=60) as http:

            def kernels() -> tuple[float, float]:
                lines = dict(line.rsplit(" ", 1) for line in http.get("/metrics").text.splitlines() if line[0] != "#")
                done, left = (
                    next(float(value) for key, value in lines.items() if name in key)
                    for name in ("kernelsCompiled", "kernelsToCompile")
                )
                return done, left

            def health(path: str = "/health") -> tuple[int, str]:
                answer = http.get(path)
                return answer.status_code, answer.text

            assert health() == (503, "not ready: it is starting")
            scene.warm_up.start()
            eventually(lambda: Stage.FIRST in scene.runs and scene.runs[Stage.FIRST].begun.is_set())
            for done in (0, 37, 84):
                scene.runs[Stage.FIRST].tell(done, 85)
                assert kernels() == (done, 85 - done)
                said = "not ready: kernels that the first queries need are being compiled, once for this CPU: "
                assert health() == health("/health/readiness") == (503, f"{said}{100 * done // 85} %")
            assert health("/health/liveness")[0] == 200
            scene.runs[Stage.FIRST].tell(85, 85)
            scene.runs[Stage.FIRST].release.set()
            scene.warm_up.wait()
            assert kernels() == (85, 0) and health() == (503, "not ready: it is starting")
            # It joins: ready, and the others follow.
            parts._readiness = cast(Readiness, SimpleNamespace(reason=lambda: None, remark=lambda: ""))
            scene.warm_up.follow()
            eventually(lambda: Stage.ALL in scene.runs and scene.runs[Stage.ALL].begun.is_set())
            scene.runs[Stage.ALL].tell(100, 284)
            assert kernels() == (100, 184) and health() == (200, "OK")
            status, ready = health("/health/readiness")
            assert status == 200 and "the other kernels are being compiled, once for this CPU: 35 %" in ready
    finally:
        server.stop(5)


def test_a_filled_cache_is_loaded_as_a_whole_and_silently(
    scene: Scene, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    marker(tmp_path, Stage.ALL).touch()
    caplog.set_level(logging.INFO)
    scene.warm_up.start()
    scene.warm_up.wait()
    scene.warm_up.follow()
    assert scene.num_warmed == 1 and not scene.runs and scene.warm_up.is_complete and scene.warm_up.told() == ""
    assert caplog.text == ""


def test_the_end_stops_compiling(scene: Scene, eventually: Callable[..., float]) -> None:
    scene.warm_up.start()
    eventually(lambda: Stage.FIRST in scene.runs and scene.runs[Stage.FIRST].begun.is_set())
    scene.warm_up.end()
    scene.warm_up.wait()
    assert scene.runs[Stage.FIRST].is_ended and not scene.loaded


def test_kernels_that_fail_do_not_keep_a_server_from_starting(
    scene: Scene, caplog: pytest.LogCaptureFixture, eventually: Callable[..., float]
) -> None:
    scene.warm_up.start()
    eventually(lambda: Stage.FIRST in scene.runs and scene.runs[Stage.FIRST].begun.is_set())
    scene.runs[Stage.FIRST].failures[FIRST] = "the disk is full"
    scene.runs[Stage.FIRST].release.set()
    scene.warm_up.wait()
    assert "kernels could not be compiled" in caplog.text and scene.loaded == [FIRST]
