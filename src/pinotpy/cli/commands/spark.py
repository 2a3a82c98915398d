"""Build and push segments on Spark, locally or on a cluster (--master); `warmup` speeds up the start of later jobs."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pinotpy.cli import options
from pinotpy.errors import UserError
from pinotpy.spark_jobs.steps import JOB_HELP, Step

if TYPE_CHECKING:
    from pinotpy.spark_jobs.session import SparkSettings

NAME = "spark"
_FORCE_HELP = "warmup: make the cache anew, also where there is one"


class Action(StrEnum):
    """A step of a job, or the warmup that makes the start of all later ones shorter."""

    BUILD = Step.BUILD.value
    PUSH = Step.PUSH.value
    RUN = Step.RUN.value
    WARMUP = "warmup"


def run(
    action: Annotated[
        Action,
        typer.Argument(
            help="build-segments, push-segments, or run (everything that the job's type says); "
            "warmup (without a job): cache Java's loaded classes, so that later jobs start seconds sooner"
        ),
    ],
    job: Annotated[str | None, typer.Argument(help=JOB_HELP)] = None,
    values: Annotated[
        list[str] | None, typer.Option("--values", help="name=value for ${name} in the job; may be repeated")
    ] = None,
    master: Annotated[
        str, typer.Option("--master", help="Spark master: local[N,attempts], spark://…, yarn, k8s://…")
    ] = "local[*,4]",
    conf: Annotated[
        list[str] | None, typer.Option("--conf", help="name=value of Spark's settings; may be repeated")
    ] = None,
    driver_memory: Annotated[
        str,
        typer.Option("--driver-memory", help="heap of the driver's JVM; in local mode also of the executors"),
    ] = "1g",
    working_dir: Annotated[
        Path | None,
        typer.Option("--working-dir", help="folder for Spark's working files (default: the system's temporary folder)"),
    ] = None,
    timeout_s: Annotated[
        float | None, typer.Option("--timeout-s", help="cancel the job after this many seconds")
    ] = None,
    missing_columns: options.MissingColumns = None,
    spark_log: Annotated[
        Path | None, typer.Option("--spark-log", help="file for Spark's log (default: kept only if the job fails)")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help=_FORCE_HELP)] = False,
    as_json: options.Json = False,
) -> None:
    from pinotpy.cli.build_report import print_report, report_document
    from pinotpy.spark_jobs.commands import run_step
    from pinotpy.spark_jobs.session import SparkSettings

    settings = SparkSettings(master, _pairs(conf or []), driver_memory, working_dir, timeout_s, spark_log)
    if action is Action.WARMUP:
        if job is not None:
            raise typer.BadParameter("warmup takes no job")
        _warm_up(settings, force=force, as_json=as_json)
        return
    if job is None:
        raise typer.BadParameter("missing the job")
    if force:
        raise typer.BadParameter("--force is for warmup alone")
    with options.progress(as_json) as bar:
        task = bar.add_task("starting Spark", total=None)
        report = run_step(
            Step(action.value),
            job,
            values or [],
            settings,
            lambda what, num_done, num_tasks: bar.update(
                task, description=what, completed=num_done, total=num_tasks or None
            ),
            missing_columns=missing_columns,
        )
    if as_json:
        typer.echo(json.dumps(report_document(report), indent=2, ensure_ascii=False))
    else:
        print_report(report)
    if report.error is not None:
        raise UserError(report.error)
    if report.num_failures:
        raise UserError(
            f"{report.num_failures} input files were left out, their causes stand in the report; the others are done"
        )


def _warm_up(settings: SparkSettings, *, force: bool, as_json: bool) -> None:
    from pinotpy.spark_jobs.java_training import warm_up_java

    with options.progress(as_json) as bar:
        bar.add_task("training Spark's Java, half a minute", total=None)
        done = warm_up_java(settings, force=force)
    if as_json:
        document = {
            "cache": str(done.file),
            "sizeBytes": done.size_bytes,
            "wasThere": done.was_there,
            "tookSeconds": round(done.took_s, 3),
        }
        typer.echo(json.dumps(document))
    elif done.was_there:
        typer.echo(
            f"nothing to do: Java's cache is there, {done.size_bytes / 1e6:.0f} MB at {done.file}; --force makes it "
            "anew"
        )
    else:
        typer.echo(f"Java's cache made in {done.took_s:.1f} s, {done.size_bytes / 1e6:.0f} MB at {done.file}")


def _pairs(texts: list[str]) -> dict[str, str]:
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise UserError(f"--conf '{text[:80]}': expected name=value")
        pairs[name.strip()] = value
    return pairs
