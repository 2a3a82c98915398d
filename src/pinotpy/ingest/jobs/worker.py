"""A worker process: reads units as JSON lines, does them, writes reports as JSON lines. `spare_workers` starts it.

It ends when its standard input does, also in the middle of a unit: with its parent, however that ends.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import sys
import threading
import time
from pathlib import Path
from typing import Any, Final

from pinotpy.ingest.jobs.build import build_unit
from pinotpy.ingest.jobs.context import JobContext
from pinotpy.ingest.jobs.plan import Unit

_PROGRESS_EVERY_S: Final = 0.5


def main() -> int:
    """The first line is a list: file of the job's context, working folder, number of threads."""
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr, format="%(levelname)s %(name)s %(message)s")
    # Whatever prints must not come between the lines of the protocol.
    channel, sys.stdout = sys.stdout, sys.stderr
    lines: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_listen, args=(lines,), daemon=True).start()
    context_file, work_dir, threads = json.loads(lines.get())
    context = JobContext.from_json_dict(json.loads(Path(context_file).read_text()))

    def send(message: dict[str, Any]) -> None:
        channel.write(json.dumps(message) + "\n")
        channel.flush()

    while True:
        unit = Unit.from_json_dict(json.loads(lines.get()))
        last_s = 0.0

        def progress(bytes_done: int, unit_id: int = unit.unit_id) -> None:
            nonlocal last_s
            if time.monotonic() - last_s >= _PROGRESS_EVERY_S:
                last_s = time.monotonic()
                send({"unit_id": unit_id, "bytes_done": bytes_done})

        send(
            {
                "unit_id": unit.unit_id,
                "report": build_unit(context, unit, Path(work_dir), threads=threads, progress=progress).to_json_dict(),
            }
        )


def _listen(lines: queue.Queue[str]) -> None:
    """Lines of standard input; at its end the process ends, whatever it does."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    sys.exit(main())
