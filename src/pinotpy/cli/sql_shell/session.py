"""One session of the shell: its settings, and how a statement is asked and shown."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pinotpy.cli.asking import ask, ask_for_rows
from pinotpy.cli.result_files import FileFormat, format_of, write_csv, write_result
from pinotpy.cli.sql_shell import pager
from pinotpy.cli.sql_shell.catalogue import Catalogue
from pinotpy.cli.sql_shell.formats import Format, as_text
from pinotpy.client.http_calls import Access
from pinotpy.client.result import ResultSetGroup
from pinotpy.errors import PinotError, RemoteError, UserError

CANCELLED = "cancelled: the connection is closed, and with it the broker ends the query"
_TEXT_ENDINGS = {".json": Format.JSON, ".jsonl": Format.JSONL, ".txt": Format.TABLE}


@dataclass(slots=True)
class Session:
    """Settings, which backslash commands change.

    Attributes:
        dialect: sql or pql.
        output: file that the next answer goes to; None: standard output.
        is_interactive: at a prompt, where Ctrl-C ends a query and not the program, and long answers are paged.
    """

    broker_url: str
    access: Access
    catalogue: Catalogue
    dialect: str = "sql"
    form: Format = Format.TABLE
    timing: bool = False
    output: Path | None = None
    query_options: str = ""
    timeout_s: float = 60.0
    is_interactive: bool = False

    def run(self, statement: str) -> bool:
        """Ask, and show the answer; whether all went well. What did not is told."""
        started = time.monotonic()
        try:
            is_whole = self._answer(statement)
        except KeyboardInterrupt:
            if not self.is_interactive:
                raise
            self.tell(CANCELLED)
            return False
        except PinotError as error:
            self.tell(f"error: {error.message}")
            return False
        except OSError as error:
            self.tell(f"error: {(error.strerror or str(error)).lower()} '{error.filename or ''}'")
            return False
        if self.timing:
            self.tell(f"time: {(time.monotonic() - started) * 1000:,.1f} ms, to ask and to show")
        return is_whole

    def show(self, text: str) -> None:
        """Print what was asked for."""
        pager.show(text, may_page=self.is_interactive and sys.stdout.isatty())

    def tell(self, text: str) -> None:
        """Print what is no answer: remarks and errors, so that standard output holds the answers alone."""
        print(text, file=sys.stderr, flush=True)

    def _answer(self, statement: str) -> bool:
        if self.output is not None:
            path, self.output = self.output, None
            return self._to_file(statement, path)
        if self.form is Format.CSV:
            group = self._rows(statement)
            text = io.BytesIO()
            write_csv(group, text)
            self.show(text.getvalue().decode())
            return True
        answer = self._asked(statement)
        is_terminal = sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if is_terminal else None
        self.show(as_text(answer, self.form, width=width, colours=is_terminal))
        if self.form in (Format.JSONL, Format.VERTICAL):
            self._tell_the_rest(answer)
        return not answer.get("exceptions")

    def _to_file(self, statement: str, path: Path) -> bool:
        form = _TEXT_ENDINGS.get(path.suffix.lower())
        if form is None:
            self.tell(f"{write_result(self._rows(statement), path, format_of(path, None)):,} rows written to {path}")
            return True
        answer = self._asked(statement)
        if answer.get("exceptions"):
            raise RemoteError(f"{_faults(answer)}; nothing was written to {path}")
        partial = path.with_name(f"{path.name}.partial")
        try:
            partial.write_text(as_text(answer, form, width=None, colours=False))
            os.replace(partial, path)
        finally:
            partial.unlink(missing_ok=True)
        self.tell(f"the answer is written to {path}")
        self._tell_the_rest(answer)
        return True

    def _asked(self, statement: str) -> dict[str, Any]:
        return ask(
            self.broker_url,
            statement,
            self.dialect,
            self.access,
            query_options=self.query_options,
            timeout_s=self.timeout_s,
        )

    def _rows(self, statement: str) -> ResultSetGroup:
        group = ask_for_rows(
            self.broker_url,
            statement,
            self.dialect,
            self.access,
            query_options=self.query_options,
            timeout_s=self.timeout_s,
        )
        for warning in group.warnings:
            self.tell(f"warning: {warning}")
        for reason in group.reasons:
            self.tell(f"{group.exactness}: {reason}")
        return group

    def _tell_the_rest(self, answer: dict[str, Any]) -> None:
        """What is not among the rows."""
        for warning in answer.get("warnings") or []:
            self.tell(f"warning: {warning}")
        if answer.get("exceptions"):
            self.tell(f"error: {_faults(answer)}")
        elif answer.get("exactness") not in (None, "exact"):
            self.tell(f"this answer is {answer['exactness']}: {'; '.join(answer.get('exactnessReasons') or [])}")


def output_file(text: str) -> Path:
    """The file of `\\o FILE`. UserError: its ending names no form that there is, or it cannot be written."""
    path = Path(text).expanduser()
    if path.suffix.lower() not in _TEXT_ENDINGS:
        try:
            format_of(path, None)
        except UserError:
            known = ", ".join([f".{each}" for each in FileFormat] + list(_TEXT_ENDINGS))
            raise UserError(f"expected a file whose name ends with one of {known}, found '{text}'") from None
    if path.is_dir() or not os.access(path.parent, os.W_OK | os.X_OK):
        what = "is a folder" if path.is_dir() else f"is in '{path.parent}', which is no folder that can be written"
        raise UserError(f"'{text}' {what}; expected a file's name in a folder that is there")
    return path


def _faults(answer: dict[str, Any]) -> str:
    return "; ".join(
        f"{fault.get('errorCode')} {fault.get('message')}" for fault in answer.get("exceptions") or []
    ) or json.dumps(answer)
