"""Proves how user functions are found: announced by installed packages (a package here is a module and a dist-info
folder on sys.path, as pip leaves them) and named in an operator's list; and that what is missing, broken, contradictory
or named like something else is told at start, every fault at once.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from user_function_registry import remove_user_functions

from pinotpy.config.settings import BrokerSettings, ControllerSettings, ServerSettings, load_settings
from pinotpy.config.settings_loading import Settings
from pinotpy.errors import InvalidConfigError
from pinotpy.functions.loading import load_user_functions
from pinotpy.functions.scalar import spec

GOOD = """
from pinotpy.functions import udf

@udf(arguments=["LONG"], result="LONG", example=((2,), 4))
def twice(x):
    "Two times x."
    return x * 2

@udf(arguments=["LONG"], result="LONG")
def thrice(x):
    return x * 3

class functions:
    nested = thrice

plain = len
"""


class Site:
    """A folder of installed packages."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def module(self, name: str, text: str) -> None:
        (self.folder / f"{name}.py").write_text(text)

    def package(self, name: str, entry_points: dict[str, str]) -> None:
        info = self.folder / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{key} = {value}" for key, value in entry_points.items()]
        (info / "entry_points.txt").write_text("\n".join(["[pinotpy.functions]", *lines, ""]))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    before = set(sys.modules)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Site(tmp_path)
    remove_user_functions()
    for name in set(sys.modules) - before:
        if getattr(sys.modules[name], "__file__", None) and str(tmp_path) in str(sys.modules[name].__file__):
            del sys.modules[name]


def names(*listed: str) -> list[str]:
    return [function.spelling for function in load_user_functions(listed)]


def test_functions_that_packages_announce_are_known_without_being_listed(site: Site) -> None:
    site.module("udf_good_a", GOOD)
    site.package("good-a", {"twice": "udf_good_a:twice", "three": "udf_good_a:functions.nested"})
    assert names() == ["thrice", "twice"]
    assert {"twice", "thrice"} <= set(spec.scalar_functions())
    assert names("TWICE", "thr_ice") == ["thrice", "twice"], (
        "listed by name, in any spelling; loading again changes nothing"
    )


def test_an_operator_names_functions_of_modules(site: Site) -> None:
    site.module("udf_good_b", GOOD)
    assert names("udf_good_b:twice") == ["twice"]
    assert "thrice" not in spec.scalar_functions()


def test_the_same_function_announced_and_listed_is_one(site: Site) -> None:
    site.module("udf_good_c", GOOD)
    site.package("good-c", {"twice": "udf_good_c:twice"})
    assert names("udf_good_c:twice", "udf_good_c:twice") == ["twice"]


def test_every_fault_is_told_at_once(site: Site) -> None:
    site.module("udf_good_d", GOOD)
    site.module("udf_broken", "import no_such_library")
    site.module("udf_leaves", "import sys; sys.exit(2)")
    site.module("udf_wrong", GOOD.replace("((2,), 4)", "((2,), 5)"))
    site.module(
        "udf_taken",
        'from pinotpy.functions import udf\n@udf(arguments=["LONG"], result="LONG")\ndef abs(x): return x\n',
    )
    site.package("good-d", {"thrice": "udf_good_d:thrice"})
    site.package("bad-d", {"a": "udf_broken:a", "b": "udf_good_d:nothing"})
    with pytest.raises(InvalidConfigError) as caught:
        load_user_functions(
            ["haversine", "udf_none:f", "udf_leaves:f", "udf_good_d:plain", "udf_wrong:twice", "udf_taken:abs"]
        )
    told = {fault.path: (fault.found, fault.allowed) for fault in caught.value.faults}
    decorated = "a function decorated with pinotpy.functions.udf, as module:function"
    assert told.pop("'haversine'") == (
        "no installed package that announces it",
        "one of the announced functions (abs, thrice, twice), or module:function",
    )
    assert told.pop("'udf_none:f'") == ("ModuleNotFoundError: No module named 'udf_none'", decorated)
    assert told.pop("'udf_leaves:f'") == ("SystemExit: 2", decorated)
    assert told.pop("'udf_good_d:plain'") == ("a builtin_function_or_method", decorated)
    assert told.pop("'udf_wrong:twice'")[0] == "the example of function 'twice' is wrong: expected 5, found 4"
    assert told.pop("'udf_taken:abs'")[0] == "a function is called 'abs' already: name it otherwise"
    assert told.pop("entry point 'a = udf_broken:a' of bad-d 1.0") == (
        "ModuleNotFoundError: No module named 'no_such_library'",
        decorated,
    )
    assert told.pop("entry point 'b = udf_good_d:nothing' of bad-d 1.0")[0].startswith("AttributeError: ")
    assert told == {}


def test_two_functions_of_one_name_are_refused_with_both_places(site: Site) -> None:
    site.module("udf_one", GOOD)
    site.module("udf_two", GOOD)
    site.package("one", {"twice": "udf_one:twice"})
    with pytest.raises(
        InvalidConfigError,
        match=r"'udf_two:twice': found a second function called 'twice'.*entry point 'twice = udf_one:twice' of one "
        r"1.0",
    ):
        load_user_functions(["udf_two:twice"])


@pytest.mark.parametrize("role", [ControllerSettings, BrokerSettings, ServerSettings])
def test_each_daemon_reads_the_list_from_its_own_config(role: type[Settings], tmp_path: Path) -> None:
    properties = tmp_path / "server.properties"
    properties.write_text("pinot.server.user.functions=geo:haversine, geo:bearing ,\n")
    assert load_settings(role, properties, environment={}).model_dump()["user_functions"] == (
        "geo:haversine",
        "geo:bearing",
    )
    document = tmp_path / "server.json"
    document.write_text('{"pinotpy": {"user.functions": ["geo:haversine"]}}')
    assert load_settings(role, document, environment={}).model_dump()["user_functions"] == ("geo:haversine",)
    assert load_settings(role, environment={"PINOTPY_USER_FUNCTIONS": "a:b"}).model_dump()["user_functions"] == ("a:b",)
    assert load_settings(role, environment={}).model_dump()["user_functions"] == ()


def test_the_function_of_the_manual_loads_as_the_manual_says(site: Site) -> None:
    manual = (Path(__file__).resolve().parents[4] / "docs" / "user-functions.md").read_text("utf-8")
    code = manual.split("```python\n")[1].split("```")[0]
    (announced,) = [line.split(" = ")[1].strip('"') for line in manual.splitlines() if line.startswith("haversine = ")]
    site.module("geo_functions", code)
    site.package("geo-functions", {"haversine": announced})
    assert names("haversine") == ["haversine"]
    (summary,) = [function.summary for function in spec.user_functions().values()]
    assert summary == "Distance of two places on the globe in km."
