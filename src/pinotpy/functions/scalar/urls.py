"""Functions that take URLs apart, cut parts off, and read their parameters: URLDOMAIN, CUTQUERYSTRING,
EXTRACTURLPARAMETER.

What is no URL (a blank in it, no host where one must be) gives null, -1 or an empty list, never an error; the functions
that cut leave it as it is. They cut the text itself: what stays is not encoded anew, as the reference does, which takes
%2F for a slash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote_plus

from pinotpy.data_types import DataType
from pinotpy.functions.scalar.spec import Example, ScalarFunction
from pinotpy.functions.scalar.text_arguments import TEXT, text_function
from pinotpy.functions.text.url_parts import Url, decoded, is_opaque, parse_url

_COMMON_ENDS: Final = ("com", "net", "org", "co")  # before which one label tells who it is; before others it takes two
_NO_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_WWW: Final = "www."

_EXAMPLE: Final = "https://ann:pw@www.shop.example.com:8080/a/b%20c?x=1&y=2#top"


# --- parts ------------------------------------------------------------------------------------------------------------


def _of_url(part_of: Callable[[Url], Any], otherwise: Any = None) -> Callable[[str], Any]:
    def compute(text: str) -> Any:
        url = parse_url(text)
        return otherwise if url is None else part_of(url)

    return compute


def _of_labels(part_of: Callable[[list[str]], str]) -> Callable[[str], str | None]:
    """A part of the labels of the host: www, shop, example, com."""
    return _of_url(lambda url: None if url.host is None else part_of(url.host.rstrip(".").split(".")))


def _significant(labels: list[str]) -> int:
    """Where the label begins that tells who it is: example of www.example.com, news of www.news.co.uk."""
    return max(len(labels) - (2 if labels[-1] in _COMMON_ENDS else 3), 0) if len(labels) > 2 else 0


def _from_significant(labels: list[str]) -> str:
    return ".".join(labels[_significant(labels) :])


def _from_significant_with_www(labels: list[str]) -> str:
    begin = _significant(labels)
    return ".".join(labels[begin - 1 if begin == 1 and labels[0] == "www" else begin :])


def _without_www(host: str | None) -> str | None:
    return None if host is None else host.removeprefix(_WWW)


def _path(url: Url) -> str | None:
    return None if url.scheme is None or url.host is None else decoded(url.path)


def _path_with_query(url: Url) -> str | None:
    if url.scheme is None or url.host is None:
        return None
    return f"{url.path}?{url.query}" if url.query is not None else url.path


def _query_and_fragment(url: Url) -> str | None:
    parts = [decoded(component) or "" for component in (url.query, url.fragment) if component is not None]
    return "#".join(parts) if parts else None


def _net_location(url: Url) -> str:
    user = decoded(url.user)
    return (f"{user}@" if user else "") + (url.host or "") + (f":{url.port}" if url.port >= 0 else "")


# --- parameters -------------------------------------------------------------------------------------------------------


def _raw_parameters(url: Url) -> list[str]:
    """`name=value` as they stand in the query; empty ones at the end do not count."""
    parameters = [] if url.query is None else url.query.split("&")
    while len(parameters) > 1 and not parameters[-1]:
        parameters.pop()
    return [] if url.query and parameters == [""] else parameters


def _parameters(url: Url) -> list[str]:
    return [decoded(parameter) or "" for parameter in _raw_parameters(url)]


def _parameter_names(url: Url) -> list[str]:
    return [_name(parameter) for parameter in _raw_parameters(url)]


def _name(parameter: str) -> str:
    return decoded(parameter.partition("=")[0]) or ""


def _parameter(text: str, name: str) -> str:
    url = parse_url(text)
    for parameter in [] if url is None else _raw_parameters(url):
        if _name(parameter) == name:
            return decoded(parameter.partition("=")[2]) or ""
    return ""


# --- hierarchies ------------------------------------------------------------------------------------------------------


def _steps(url: Url) -> list[str]:
    """/a and /a/b of /a/b."""
    parts = (decoded(url.path) or "").rstrip("/").split("/")
    return ["/".join(parts[: end + 1]) for end in range(1, len(parts))]


def _hierarchy(url: Url) -> list[str]:
    if url.scheme is None or url.host is None:
        return []
    root = f"{url.scheme}://{url.host}"
    return [root, *(root + step for step in _steps(url))]


# --- cut --------------------------------------------------------------------------------------------------------------


def _cut(change: Callable[[Url], Url]) -> Callable[[str], str]:
    def compute(text: str) -> str:
        url = parse_url(text)
        return text if url is None else change(url).text()

    return compute


def _cut_www(url: Url) -> Url:
    if url.host is None or not url.host.startswith(_WWW) or url.authority is None:
        return url
    user, separator, rest = url.authority.rpartition("@")
    return replace(url, authority=user + separator + rest.removeprefix(_WWW))


def _cut_parameter(text: str, name: str) -> str:
    url = parse_url(text)
    if url is None or not url.query:
        return text
    remaining = [parameter for parameter in url.query.split("&") if unquote_plus(parameter.partition("=")[0]) != name]
    return replace(url, query="&".join(remaining) or None).text()


def _decoded_form(text: str) -> str | None:
    return None if _NO_ESCAPE.search(text) else unquote_plus(text)


def _part(
    name: str,
    summary: str,
    compute: Callable[[str], Any],
    value: Any,
    gives: DataType = DataType.STRING,
    *,
    many: bool = False,
) -> ScalarFunction:
    return text_function(
        name,
        f"{name.upper()}(url)",
        summary,
        (TEXT,),
        compute,
        Example(f"{name}('{_EXAMPLE}')", value),
        gives=gives,
        single_value=not many,
    )


FUNCTIONS = (
    _part("urlprotocol", "The protocol of a URL.", _of_url(lambda url: url.scheme), "https"),
    _part("urldomain", "The host of a URL.", _of_url(lambda url: url.host), "www.shop.example.com"),
    _part(
        "urldomainwithoutwww",
        "The host of a URL without www. before it.",
        _of_url(lambda url: _without_www(url.host)),
        "shop.example.com",
    ),
    _part("urltopleveldomain", "The last label of the host.", _of_labels(lambda labels: labels[-1]), "com"),
    _part(
        "urlfirstsignificantsubdomain",
        "The label that tells who it is: the one before com, net, org and co, the one before two labels elsewhere.",
        _of_labels(lambda labels: labels[_significant(labels)]),
        "example",
    ),
    _part(
        "cuttofirstsignificantsubdomain",
        "The host from the label on that tells who it is.",
        _of_labels(_from_significant),
        "example.com",
    ),
    _part(
        "cuttofirstsignificantsubdomainwithwww",
        "The host from the label on that tells who it is, with www. if that stands right before it.",
        _of_labels(_from_significant_with_www),
        "example.com",
    ),
    _part("urlport", "The port of a URL, -1 without one.", _of_url(lambda url: url.port, -1), 8080, DataType.INT),
    _part("urlnetloc", "User, host and port of a URL.", _of_url(_net_location), "ann:pw@www.shop.example.com:8080"),
    _part("urlpath", "The path of a URL with protocol and host, decoded.", _of_url(_path), "/a/b c"),
    _part(
        "urlpathwithquery",
        "The path and the query of a URL with protocol and host, as they stand in it.",
        _of_url(_path_with_query),
        "/a/b%20c?x=1&y=2",
    ),
    _part(
        "urlquerystring",
        "The query of a URL, without ?, as it stands in it.",
        _of_url(lambda url: url.query),
        "x=1&y=2",
    ),
    _part("urlfragment", "What follows # in a URL, decoded.", _of_url(lambda url: decoded(url.fragment)), "top"),
    _part(
        "urlquerystringandfragment",
        "The query and the fragment of a URL, decoded.",
        _of_url(_query_and_fragment),
        "x=1&y=2#top",
    ),
    text_function(
        "extracturlparameter",
        "EXTRACTURLPARAMETER(url, name)",
        "The first value of a parameter, decoded; empty without one.",
        (TEXT, TEXT),
        _parameter,
        Example(f"extractURLParameter('{_EXAMPLE}', 'y')", "2"),
    ),
    _part(
        "extracturlparameters",
        "All parameters as name=value, decoded.",
        _of_url(_parameters, []),
        ["x=1", "y=2"],
        many=True,
    ),
    _part(
        "extracturlparameternames", "The names of all parameters.", _of_url(_parameter_names, []), ["x", "y"], many=True
    ),
    _part(
        "urlhierarchy",
        "The URL of the host, then of each step of its path.",
        _of_url(_hierarchy, []),
        ["https://www.shop.example.com", "https://www.shop.example.com/a", "https://www.shop.example.com/a/b c"],
        many=True,
    ),
    _part(
        "urlpathhierarchy",
        "Each step of the path.",
        _of_url(lambda url: [] if is_opaque(url) else _steps(url), []),
        ["/a", "/a/b c"],
        many=True,
    ),
    _part("cutwww", "The URL without www. before its host.", _cut(_cut_www), _EXAMPLE.replace("www.", "")),
    _part(
        "cutquerystring",
        "The URL without its query.",
        _cut(lambda url: replace(url, query=None)),
        _EXAMPLE.replace("?x=1&y=2", ""),
    ),
    _part(
        "cutfragment",
        "The URL without its fragment.",
        _cut(lambda url: replace(url, fragment=None)),
        _EXAMPLE.replace("#top", ""),
    ),
    _part(
        "cutquerystringandfragment",
        "The URL without its query and fragment.",
        _cut(lambda url: replace(url, query=None, fragment=None)),
        _EXAMPLE.partition("?")[0],
    ),
    text_function(
        "cuturlparameter",
        "CUTURLPARAMETER(url, name)",
        "The URL without a parameter.",
        (TEXT, TEXT),
        _cut_parameter,
        Example(f"cutURLParameter('{_EXAMPLE}', 'x')", _EXAMPLE.replace("x=1&", "")),
    ),
    text_function(
        "urldecode",
        "URLDECODE(text)",
        "The text of a percent-encoded one, + as a blank; null where a % has no two digits after it, which DECODEURL "
        "refuses.",
        (TEXT,),
        _decoded_form,
        Example("urlDecode('Hello%2C+World')", "Hello, World"),
        aliases=("urldecodeformcomponent",),
    ),
)
