"""Proves that a command which waits for reloads fails where a reload does not bring all that the table asks for."""

from __future__ import annotations

from typing import Any, cast

import pytest

from pinotpy.cli.reloading import follow_reloads
from pinotpy.client.controller import ControllerClient
from pinotpy.errors import RemoteError


class OneJob:
    """A controller that knows one job, which is over."""

    def __init__(self, status: str, **more: Any) -> None:
        self._status = {
            "metadata": {"jobId": "j", "tableNameWithType": "t_OFFLINE"},
            "status": status,
            "successCount": 1,
            "totalSegmentCount": 1,
            "failureCount": 0,
            "timeElapsedInMinutes": 0.1,
            "serversFailed": {},
            "segmentReloadFailures": None,
            **more,
        }

    def reload_status(self, job: str) -> dict[str, Any]:
        return self._status


def test_a_reload_that_is_not_complete_fails_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    client = OneJob("COMPLETED_WITH_ERRORS", rebuildSegments={"s": "column 'b' reads a field that is not there"})
    with pytest.raises(RemoteError, match="build the segments named above again"):
        follow_reloads(cast(ControllerClient, client), ["j"], wait=False, timeout_s=1, as_json=False)
    assert "s lacks what only building it again brings: column 'b' reads" in capsys.readouterr().out
    client = OneJob("COMPLETED")
    follow_reloads(cast(ControllerClient, client), ["j"], wait=False, timeout_s=1, as_json=False)
