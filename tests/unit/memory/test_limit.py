"""Proves which limit of memory a process finds, in control groups of v1 and v2 and without any, and whom it finds
beside it: read from folders that stand for /proc and /sys.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from pinotpy.memory.limit import memory_limit, other_daemons

GIB = 1 << 30


def machine(root: Path, cgroup: str, files: dict[str, str]) -> Path:
    """A machine of 8 GiB."""
    for name, text in {
        "proc/meminfo": f"MemTotal:       {8 * GIB // 1024} kB\nMemFree: 1 kB\n",
        "proc/self/cgroup": cgroup,
        **files,
    }.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return root


V1_NONE = "9223372036854771712\n"


@pytest.mark.parametrize(
    ("cgroup", "files", "expected", "source"),
    [
        ("0::/\n", {}, 8 * GIB, "proc/meminfo"),
        ("0::/\n", {"sys/fs/cgroup/memory.max": f"{3 * GIB}\n"}, 3 * GIB, "sys/fs/cgroup/memory.max"),
        ("0::/a/b\n", {"sys/fs/cgroup/a/b/memory.max": "max\n"}, 8 * GIB, "proc/meminfo"),
        (
            "0::/a/b\n",
            {"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/memory.max": f"{2 * GIB}\n"},
            2 * GIB,
            "sys/fs/cgroup/a/memory.max",
        ),
        (
            "0::/a/b\n",
            {"sys/fs/cgroup/a/b/memory.max": f"{GIB}\n", "sys/fs/cgroup/a/memory.max": f"{2 * GIB}\n"},
            GIB,
            "sys/fs/cgroup/a/b/memory.max",
        ),
        (
            "3:cpu:/x\n4:memory:/pod/one\n0::/\n",
            {"sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes": f"{GIB}\n"},
            GIB,
            "sys/fs/cgroup/memory/pod/one/memory.limit_in_bytes",
        ),
        ("4:memory:/\n", {"sys/fs/cgroup/memory/memory.limit_in_bytes": V1_NONE}, 8 * GIB, "proc/meminfo"),
        # A container without a namespace of groups: the path is the host's, what is mounted is its own group.
        (
            "4:hugetlb,memory:/docker/123\n",
            {"sys/fs/cgroup/memory/memory.limit_in_bytes": f"{GIB}\n"},
            GIB,
            "sys/fs/cgroup/memory/memory.limit_in_bytes",
        ),
    ],
)  # fmt: skip
def test_the_least_limit_holds(tmp_path: Path, cgroup: str, files: dict[str, str], expected: int, source: str) -> None:
    limit = memory_limit(machine(tmp_path, cgroup, files))
    assert (limit.size_bytes, Path(limit.source).relative_to(tmp_path).as_posix()) == (expected, source)


def test_a_machine_without_control_groups_has_its_own_memory(tmp_path: Path) -> None:
    root = machine(tmp_path, "", {})
    (root / "proc/self/cgroup").unlink()
    assert memory_limit(root).size_bytes == 8 * GIB
    assert other_daemons(root) == []


def test_daemons_of_the_same_group_are_found(tmp_path: Path) -> None:
    def command(*words: str) -> str:
        return "\0".join(words) + "\0"

    root = machine(
        tmp_path,
        "0::/pod\n",
        {
            "sys/fs/cgroup/pod/cgroup.procs": "7\n8\n9\n10\n11\n",
            "proc/7/cmdline": command("/usr/bin/python", "-m", "pinotpy", "start-server"),
            "proc/8/cmdline": command("/usr/bin/python", "-m", "pinotpy", "start-broker", "--broker-port", "0"),
            "proc/9/cmdline": command("/usr/bin/python", "-m", "pinotpy", "post-query"),
            "proc/10/cmdline": command("start-server"),
        },
    )
    assert other_daemons(root, pid=7) == [8]
