"""One client that asks one query again and again over one connection, in a process of its own: what it measures is what
the cluster takes, not what other clients of a benchmark do to this one's interpreter.

    python -m bench.tiny_client URL SQL ROWS   # until its input ends; then JSON on its output

{"ms": [how long each answer took], "outcomes": {"right", "wrong" or the code of an error: how many}}.
"""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from pinotpy.cli.asking import PATHS

TIMEOUT_S = 60.0


@contextmanager
def asking(url: str, text: str, rows: list[list[Any]]) -> Iterator[dict[str, Any]]:
    """It asks meanwhile; what it measured is there afterwards."""
    command = [sys.executable, "-m", __name__, url, text, json.dumps(rows)]
    found: dict[str, Any] = {}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            yield found
        finally:
            said, _ = process.communicate(timeout=2 * TIMEOUT_S)
            found.update(json.loads(said))


def main(url: str, text: str, rows: str) -> None:
    is_over = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), is_over.set()), daemon=True).start()
    expected, body = json.loads(rows), json.dumps({"sql": text})
    ms: list[float] = []
    outcomes: Counter[str] = Counter()
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=TIMEOUT_S)
    while not is_over.is_set():
        began_s = time.perf_counter()
        try:
            connection.request("POST", PATHS["sql"], body, {"Content-Type": "application/json"})
            answer = json.loads(connection.getresponse().read())
            faults = answer["exceptions"]
            is_right = not faults and answer["resultTable"]["rows"] == expected
            outcomes[str(faults[0]["errorCode"]) if faults else "right" if is_right else "wrong"] += 1
        except (OSError, http.client.HTTPException, ValueError) as error:
            outcomes[f"failed: {error}"[:60]] += 1
            connection.close()  # opened anew by the next request
        ms.append((time.perf_counter() - began_s) * 1000)
    print(json.dumps({"ms": ms, "outcomes": outcomes}))


if __name__ == "__main__":
    main(*sys.argv[1:])
