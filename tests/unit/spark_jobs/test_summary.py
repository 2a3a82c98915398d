"""Proves that a report of a Spark job says what was done, and equal faults once."""

from __future__ import annotations

from pinotpy.ingest.jobs.report import FileReport, JobReport, RejectSample, UnitReport
from pinotpy.spark_jobs.commands import summary

PUSH = {"state": "DONE", "clusters": [{"segmentsPushed": 8, "segmentsPresent": 1, "segmentsFailed": 0}]}


def test_a_push_alone_says_what_it_pushed() -> None:
    assert (
        summary(JobReport("SegmentTarPush", "orders", "/out", push=PUSH, took_ms=1500))
        == "push done: 8 pushed, 1 there already, 1.5 s"
    )


def test_equal_faults_stand_once_with_their_number_and_first_places() -> None:
    bad = (
        *(RejectSample(row, "qty", "'many' is no number") for row in range(3, 13)),
        RejectSample(20, "", "3 fields, expected 4"),
    )
    read = UnitReport(
        0, (FileReport("/in/a.csv", num_rows_read=30, num_rows_indexed=19, num_rows_rejected=11, reject_samples=bad),)
    )
    failed = [UnitReport(n, (FileReport(f"/in/{n}.csv"),), error=f"'/in/{n}.csv': access denied") for n in range(1, 9)]
    other = UnitReport(9, (FileReport("/in/z.csv"),), error="damaged")
    lines = summary(
        JobReport("SegmentCreation", "orders", "/out", units=(read, *failed, other), push=PUSH)
    ).splitlines()
    assert lines[0].startswith("30 rows read, 19 indexed, 11 rejected, 0 filtered; 0 segments")
    assert lines[1:] == [
        "  not built of 1.csv, 2.csv, 3.csv and 5 more: '/in/1.csv': access denied",
        "  not built of z.csv: damaged",
        "  10 rows (3, 4, 5, …) of a.csv: column 'qty': 'many' is no number; nullStringValue \"many\" of the reader's "
        "settings reads it as null, dataType STRING of the column takes it as text, --reject-share "
        "(pinotpy.rejectShareMax) leaves such rows out",
        "  row 20 of a.csv: 3 fields, expected 4; check delimiter and quoteCharacter of the reader's settings; "
        "--reject-share (pinotpy.rejectShareMax) leaves such rows out",
        "push done: 8 pushed, 1 there already",
    ]
