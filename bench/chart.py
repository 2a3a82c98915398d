"""The chart of a result: `python -m bench.chart bench/results/quoted-10m.json docs/performance.svg`.

One line a query, one mark a peer: its time over ours on a logarithmic scale. Right of 1 we are faster. Colours of text
and grid follow the reader's light or dark mode; peers differ by shape as well as by colour.
"""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any, Final
from xml.sax.saxutils import escape

PEERS: Final = {
    "duckdb": ("DuckDB", "#c98500", "circle"),
    "chdb": ("chdb", "#2f7ed8", "square"),
    "polars": ("polars", "#1f9e6e", "diamond"),
}
WIDTH: Final = 860
LEFT: Final = 200
RIGHT: Final = 40
TOP: Final = 92
STEP: Final = 19
TICKS: Final = (0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000)
STYLE: Final = (
    "\n"
    "  text { font: 12px system-ui, -apple-system, 'Segoe UI', sans-serif; fill: #1f2328 }\n"
    "  .quiet { fill: #59636e } .title { font-size: 15px; font-weight: 600 }\n"
    "  .grid { stroke: #d1d9e0; stroke-width: 1 } .even { stroke: #1f2328; stroke-width: 1.5 }"
    " .span { stroke: #afb8c1; stroke-width: 2 }\n"
    "  @media (prefers-color-scheme: dark) {\n"
    "    text { fill: #e6edf3 } .quiet { fill: #9198a1 } .grid { stroke: #30363d } .even { stroke: #e6edf3 }"
    " .span { stroke: #484f58 }\n"
    "  }\n"
)


def chart(result: dict[str, Any], suites: tuple[str, ...] = ("ssb", "own")) -> str:
    """The SVG of the result's suites, best against the best peer on top."""
    lines = [
        line
        for name in suites
        if name in result["suites"]
        for line in result["suites"][name]["queries"]
        if line["ratio"]
    ]
    lines.sort(key=lambda line: -min(line["ratio"].values()))
    ratios = [ratio for line in lines for ratio in line["ratio"].values()]
    low, high = (
        _next_tick(bound, up) for bound, up in ((min(ratios, default=1.0), False), (max(ratios, default=1.0), True))
    )

    def x(ratio: float) -> float:
        return round(
            LEFT + (WIDTH - LEFT - RIGHT) * (math.log(ratio) - math.log(low)) / (math.log(high) - math.log(low)), 1
        )

    bottom = TOP + STEP * len(lines)
    title = f"Time of each peer ÷ time of pinotpy, {result['rows'] / 1e6:g} million rows, {result['path']}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 30}" role="img" '
        f'aria-label="{escape(title)}">',
        f"<style>{STYLE}</style>",
        f'<text class="title" x="12" y="24">{escape(title)}</text>',
        f'<text class="quiet" x="12" y="44">{escape(_subtitle(result))}</text>',
        *_legend(result, lines),
    ]
    for tick in (tick for tick in TICKS if low <= tick <= high):
        kind = "even" if tick == 1 else "grid"
        parts.append(f'<line class="{kind}" x1="{x(tick)}" x2="{x(tick)}" y1="{TOP - 6}" y2="{bottom}"/>')
        parts.append(f'<text class="quiet" x="{x(tick)}" y="{bottom + 17}" text-anchor="middle">{tick:g}×</text>')
    for number, line in enumerate(lines):
        y = TOP + STEP * number + STEP / 2
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{escape(line["name"])}</text>')
        parts.append(
            f'<line class="span" x1="{x(min(line["ratio"].values()))}" x2="{x(max(line["ratio"].values()))}" y1="{y}" '
            f'y2="{y}"/>'
        )
        parts += [
            _mark(peer, x(ratio), y, f"{line['name']}: {PEERS[peer][0]} {ratio:.2f}×")
            for peer, ratio in line["ratio"].items()
        ]
    return "\n".join([*parts, "</svg>", ""])


def _next_tick(bound: float, up: bool) -> float:
    """The tick at or beyond the bound, so that 1 lies inside."""
    if up:
        return float(next((tick for tick in TICKS if tick >= max(bound, 3)), bound))
    return float(next((tick for tick in reversed(TICKS) if tick <= min(bound, 0.3)), bound))


def _subtitle(result: dict[str, Any]) -> str:
    machine = result["machine"]
    where = f"{machine['cpu']}, {machine['cores']} cores, commit {result['commit'][:7]}"
    return f"{where}; 2 threads each, medians of {result['repetitions']}; right of 1×: pinotpy is faster"


def _legend(result: dict[str, Any], lines: list[dict[str, Any]]) -> list[str]:
    parts, left = [], 18
    for peer, (name, _, _) in PEERS.items():
        ratios = [line["ratio"][peer] for line in lines if peer in line["ratio"]]
        if ratios:
            mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
            parts.append(_mark(peer, left, 62, name))
            parts.append(f'<text x="{left + 11}" y="66">{name}: geometric mean {mean:.2f}×</text>')
            left += 215
    return parts


def _mark(peer: str, x: float, y: float, title: str) -> str:
    _, colour, shape = PEERS[peer]
    label = f"<title>{escape(title)}</title>"
    if shape == "circle":
        return f'<circle cx="{x}" cy="{y}" r="4.5" fill="{colour}">{label}</circle>'
    turn = f' transform="rotate(45 {x} {y})"' if shape == "diamond" else ""
    return f'<rect x="{x - 4}" y="{y - 4}" width="8" height="8" fill="{colour}"{turn}>{label}</rect>'


def main() -> None:
    source, target = sys.argv[1:]
    Path(target).write_text(chart(json.loads(Path(source).read_text())))


if __name__ == "__main__":
    main()
