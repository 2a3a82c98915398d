"""Proves that the reports of executors' pushes are summed by their controllers, also where one executor could not reach
one of them.
"""

from __future__ import annotations

from typing import Any

from pinotpy.spark_jobs.push import merged


def part(controllers: list[str], pushed: int, failed: int = 0, cause: str = "") -> dict[str, Any]:
    segments = [{"segmentName": f"s{number}", "outcome": "pushed"} for number in range(pushed)]
    counts = {
        "segmentsPushed": pushed,
        "segmentsPresent": 0,
        "segmentsFailed": failed,
        "bytesPushed": pushed,
        "attempts": pushed,
    }
    return {
        "controllers": controllers,
        **counts,
        "seconds": 1.0,
        "segments": segments,
        **({"cause": cause} if cause else {}),
    }


def report(*clusters: dict[str, Any]) -> dict[str, Any]:
    return {
        "tableName": "orders_OFFLINE",
        "pushType": "tar",
        "state": "FAILED" if any("cause" in each for each in clusters) else "DONE",
        "clusters": [*clusters],
    }


def test_a_controller_that_only_one_executor_missed_is_told_by_itself() -> None:
    whole, halves = report(part(["a", "b"], 3)), report(part(["a"], 2), part(["b"], 0, 2, cause="not reached"))
    for reports in ([whole, halves], [halves, whole]):
        found = merged(reports)
        assert found["state"] == "FAILED"
        assert {
            tuple(each["controllers"]): (each["segmentsPushed"], each["segmentsFailed"]) for each in found["clusters"]
        } == {
            ("a", "b"): (3, 0),
            ("a",): (2, 0),
            ("b",): (0, 2),
        }
        assert [each["cause"] for each in found["clusters"] if "cause" in each] == ["not reached"]


def test_shares_of_one_cluster_are_one() -> None:
    (found,) = merged([report(part(["a"], 3)), report(part(["a"], 2))])["clusters"]
    assert (found["segmentsPushed"], found["bytesPushed"], len(found["segments"])) == (5, 5, 5)
