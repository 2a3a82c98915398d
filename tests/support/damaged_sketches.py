"""A process that reads damaged sketches as a server does: `python damaged_sketches.py <function> <seed>` flips bits of
sketches of that function, cuts them, and gives them to it beside a whole one.

Prints a line of JSON: how many were `refused` as they should be and how many `answered`; what else was raised comes as
`odd`. What crashes ends the process, what wants memory beyond the limit is odd, what hangs is killed by the caller.
"""

from __future__ import annotations

import base64
import json
import resource
import struct
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from datasketches import cpc_sketch
from pyroaring import BitMap
from sketch_states import collected, merged

from pinotpy.data_types import DataType as D
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.sketches import hyperloglog
from pinotpy.functions.spec import AggregateFunction, function_named

MEMORY_MAX_BYTES = 512 << 20  # beyond what the process has when it begins
FLIPS_MAX, FLIPS_OF_LIBRARIES = 80, 400  # of a sketch; more of those that C and C++ libraries read

# Function -> the function that writes its sketches, parameters, and how many values a sketch has.
RAW = {
    "distinctcountthetasketch": ("distinctcountrawthetasketch", ("nominalEntries=64",), (0, 1, 60, 500)),
    "distinctcounthll": ("distinctcountrawhll", (6,), (0, 5, 400)),
    "distinctcounthllplus": ("distinctcountrawhllplus", (6, 10), (0, 20, 400)),
    "distinctcountull": ("distinctcountrawull", (6,), (0, 5, 400)),
    "percentiletdigest": ("percentilerawtdigest", (50,), (1, 40)),
    "percentileest": ("percentilerawest", (50,), (1, 40)),
    "frequentlongssketch": ("frequentlongssketch", (16,), (0, 5, 100)),
    "frequentstringssketch": ("frequentstringssketch", (16,), (0, 5, 100)),
}
# Of 2^lgK rows: empty, sparse, hybrid, pinned and sliding ones.
CPC = ((4, 0), (4, 1), (11, 100), (11, 700), (11, 2_500), (6, 150), (8, 2_000), (11, 20_000), (4, 100), (5, 30))


def sketches(name: str) -> list[bytes]:
    """Whole sketches of a function, small and large."""
    if name == "distinctcountcpcsketch":
        return [_cpc(lg_k, size) for lg_k, size in CPC]
    if name == "distinctcountbitmap":
        runs = BitMap(range(2_000))
        runs.run_optimize()
        return [
            BitMap(values).serialize() for values in ((), (7,), range(0, 90_000, 7), range(0, 9_000_000, 70_001))
        ] + [runs.serialize()]
    raw, parameters, sizes = RAW[name]
    function = function_named(raw).with_parameters(parameters)
    states = [_state(function, size) for size in sizes]
    return [_bytes_of(function.finish(state, null_handling=False)[0].as_py()) for state in states]


def _state(function: AggregateFunction, size: int) -> list[pa.Array]:
    values = range(0, 3 * size, 3)
    match function.name:
        case "distinctcountrawhll":
            return hyperloglog.states_of_values(np.zeros(size, np.int64), pa.array(values, pa.int64()), 1, D.LONG, 6)
        case "frequentstringssketch":
            return collected(function, D.STRING, [[b"%d" % value for value in values]])
    return collected(function, D.LONG, [list(values)])


def _cpc(lg_k: int, size: int) -> bytes:
    sketch = cpc_sketch(lg_k)
    for value in range(size):
        sketch.update(value)
    written: bytes = sketch.serialize()
    return written


def _bytes_of(text: str) -> bytes:
    try:
        return bytes.fromhex(text)
    except ValueError:
        return base64.b64decode(text)


def damaged(whole: bytes, num_flips: int, rng: np.random.Generator) -> Iterator[bytes]:
    """The bits of the head, some of the rest, numbers that are large, and ends that are missing or too much."""
    bits = 8 * len(whole)
    for bit in sorted(
        {*range(min(bits, 2 * num_flips)), *rng.integers(0, max(bits, 1), num_flips if bits else 0).tolist()}
    ):
        yield _with(whole, bit // 8, bytes([whole[bit // 8] ^ 1 << bit % 8]))
    for at in range(min(len(whole), 32)):
        for odd in (
            b"\xff",
            b"\x00",
            b"\x1a",
            b"\xff\xff\xff\x7f",
            struct.pack("<d", 9e18),
            struct.pack(">d", 9e18),
            struct.pack(">d", float("nan")),
        ):
            if at + len(odd) <= len(whole):
                yield _with(whole, at, odd)
    for end in sorted({*range(min(len(whole), 48)), *rng.integers(0, max(len(whole), 1), 20).tolist()}):
        yield whole[:end]
    yield whole + b"\x00"
    for _ in range(40):
        yield bytes(rng.integers(0, 256, int(rng.integers(1, 80)), np.uint8))


def _with(whole: bytes, at: int, part: bytes) -> bytes:
    return whole[:at] + part + whole[at + len(part) :]


def outcome(function: AggregateFunction, data: bytes, beside: bytes) -> str:
    """What became of a damaged sketch alone and of one beside another."""
    try:
        states = collected(function, D.BYTES, [[data], [data, beside]])
        function.finish(merged(function, [states, states]), null_handling=False)
    except QueryExecutionError:
        return "refused"
    except Exception as error:
        return f"{type(error).__name__}: {error} for {data[:60].hex()} ({len(data)} bytes)"
    return "answered"


def main(name: str, seed: int) -> dict[str, Any]:
    """All damages of all sketches of one function."""
    parameters = RAW[name][1] if name.startswith(("percentile", "frequent")) else ()
    function, whole = function_named(name).with_parameters(parameters), sketches(name)
    assert all(outcome(function, data, data) == "answered" for data in whole), "a whole sketch is refused"
    with open("/proc/self/statm") as pages:
        held = int(pages.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (held + MEMORY_MAX_BYTES,) * 2)
    rng = np.random.default_rng(seed)
    num_flips = FLIPS_MAX if name in RAW else FLIPS_OF_LIBRARIES
    found = [outcome(function, data, whole[-1]) for own in whole for data in damaged(own, num_flips, rng)]
    odd = [text for text in found if text not in ("refused", "answered")]
    return {"refused": found.count("refused"), "answered": found.count("answered"), "num_odd": len(odd), "odd": odd[:5]}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]))))
