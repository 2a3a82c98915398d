"""Proves the functions of URLs against urllib.parse on URLs as they are seen, and against what java.net.URI says of odd
ones.
"""

from __future__ import annotations

from itertools import product
from typing import Any
from urllib.parse import quote_plus, unquote, urlsplit

import pytest

from pinotpy.data_types import DataType

STRING = DataType.STRING
URLS = [
    f"{scheme}://{user}{host}{port}{path}{query}{fragment}"
    for scheme, user, host, port, path, query, fragment in product(
        ["http", "svn+ssh"],
        ["", "ann@", "ann:p%40w@"],
        ["example.com", "www.news.co.uk", "10.0.0.1", "[2001:db8::1]", "localhost"],
        ["", ":8080"],
        ["", "/", "/a/b%20c", "/é/d;e=1"],
        ["", "?x=1&y=a%26b&x=2", "?q"],
        ["", "#to%20p", "#"],
    )
]
NO_URLS = [
    "a b",
    "http://",
    "http://a/[x]",
    "http://x?%zz",
    "http://x/%4",
    "1a:b",
    "a:",
    "http://x#a#b",
    "http://x/\u00a0",
    'http://x/"',
    "//",
]
NO_HOST = [
    "http://my_host/a",
    "http://1.2.3.4.5/",
    "http://h:99999999999/",
    "http://-a.com/",
    "mailto:a@b.c",
    "/a/b",
    "",
    "file:///x",
    "http://a.1/",
]


def _host(url: str) -> str:
    found = urlsplit(url)
    host = found.netloc.rpartition("@")[2].removesuffix(":8080")
    assert host.strip("[]") == found.hostname
    return host


def test_parts_are_those_of_urllib(call: Any) -> None:
    split = [urlsplit(url) for url in URLS]
    column = (STRING, URLS)
    assert call("urlProtocol", column) == [found.scheme for found in split]
    assert call("urlDomain", column) == [_host(url) for url in URLS]
    assert call("urlDomainWithoutWWW", column) == [_host(url).removeprefix("www.") for url in URLS]
    assert call("urlTopLevelDomain", column) == [_host(url).split(".")[-1] for url in URLS]
    assert call("urlPort", column) == [found.port or -1 for found in split]
    assert call("urlPath", column) == [unquote(found.path) for found in split]
    assert call("urlPathWithQuery", column) == [
        found.path + (f"?{found.query}" if found.query else "") for found in split
    ]
    assert call("urlQueryString", column) == [found.query or None for found in split]
    assert call("urlFragment", column) == [
        unquote(found.fragment) if "#" in url else None for found, url in zip(split, URLS, strict=True)
    ]
    assert call("urlNetloc", column) == [unquote(found.netloc) for found in split]


def test_what_is_cut_off_leaves_the_rest_as_it_was(call: Any) -> None:
    column = (STRING, URLS)
    split = [urlsplit(url) for url in URLS]
    bare = [url.partition("#")[0] for url in URLS]
    assert call("cutFragment", column) == bare
    assert call("cutQueryStringAndFragment", column) == [url.partition("?")[0] for url in bare]
    assert call("cutQueryString", column) == [
        url.replace(f"?{found.query}", "") if found.query else url for url, found in zip(URLS, split, strict=True)
    ]
    assert call("cutWWW", column) == [url.replace("//www.", "//").replace("@www.", "@") for url in URLS]
    assert call("cutUrlParameter", column, "x") == [url.replace("x=1&y=a%26b&x=2", "y=a%26b") for url in URLS]
    assert call("cutUrlParameter", column, "q") == [url.replace("?q", "") for url in URLS]
    assert call("cutWWW", (STRING, ["http://www.a/www.b", "http://x/www."])) == ["http://a/www.b", "http://x/www."]


@pytest.mark.parametrize("url", NO_URLS)
def test_no_url_has_no_parts_and_is_left_as_it_is(call: Any, url: str) -> None:
    for name in (
        "urlProtocol",
        "urlDomain",
        "urlTopLevelDomain",
        "urlPath",
        "urlQueryString",
        "urlFragment",
        "urlNetloc",
        "urlPathWithQuery",
    ):
        assert call(name, (STRING, [url])) == [None]
    for name in ("extractUrlParameters", "extractUrlParameterNames", "urlHierarchy", "urlPathHierarchy"):
        assert call(name, (STRING, [url])) == [[]]
    for name in ("cutWWW", "cutFragment", "cutQueryString", "cutQueryStringAndFragment"):
        assert call(name, (STRING, [url])) == [url]
    assert call("urlPort", (STRING, [url])) == [-1]
    assert call("extractUrlParameter", (STRING, [url]), "x") == [""]


def test_urls_without_a_host(call: Any) -> None:
    column = (STRING, NO_HOST)
    assert call("urlDomain", column) == [None] * len(NO_HOST)
    assert call("urlPort", column) == [-1] * len(NO_HOST)
    assert call("urlPath", column) == [None] * len(NO_HOST)
    assert call("urlProtocol", column) == ["http", "http", "http", "http", "mailto", None, None, "file", "http"]
    assert call("cutQueryString", column) == NO_HOST


def test_parameters(call: Any) -> None:
    urls = ["http://a/?x=1&y=a%26b&x=2&z", "http://a/?", "http://a/", "?p=%C3%A9+1&&q=a=b&&"]
    assert call("extractUrlParameter", (STRING, urls), "x") == ["1", "", "", ""]
    assert call("extractUrlParameter", (STRING, urls), "y") == ["a&b", "", "", ""]
    assert call("extractUrlParameter", (STRING, urls), "p") == ["", "", "", "é+1"]
    assert call("extractUrlParameter", (STRING, urls), "q") == ["", "", "", "a=b"]
    assert call("extractUrlParameters", (STRING, urls)) == [
        ["x=1", "y=a&b", "x=2", "z"],
        [""],
        [],
        ["p=é+1", "", "q=a=b"],
    ]
    assert call("extractUrlParameterNames", (STRING, urls)) == [["x", "y", "x", "z"], [""], [], ["p", "", "q"]]


def test_significant_labels(call: Any) -> None:
    hosts = ["com", "a.de", "www.a.com", "www.b.co.uk", "news.b.co.uk", "x.www.b.org", "www.a.b.c.de"]
    column = (STRING, [f"http://{host}/" for host in hosts])
    assert call("urlFirstSignificantSubdomain", column) == ["com", "a", "a", "b", "b", "b", "b"]
    assert call("cutToFirstSignificantSubdomain", column) == [
        "com",
        "a.de",
        "a.com",
        "b.co.uk",
        "b.co.uk",
        "b.org",
        "b.c.de",
    ]
    assert call("cutToFirstSignificantSubdomainWithWWW", column) == [
        "com",
        "a.de",
        "www.a.com",
        "www.b.co.uk",
        "b.co.uk",
        "b.org",
        "b.c.de",
    ]


def test_hierarchies(call: Any) -> None:
    urls = ["https://a.b:80/c/d/?x", "https://a.b/", "https://a.b", "/c/d"]
    assert call("urlHierarchy", (STRING, urls)) == [
        ["https://a.b", "https://a.b/c", "https://a.b/c/d"],
        ["https://a.b"],
        ["https://a.b"],
        [],
    ]
    assert call("urlPathHierarchy", (STRING, urls)) == [["/c", "/c/d"], [], [], ["/c", "/c/d"]]


def test_forms_are_encoded_and_decoded(call: Any) -> None:
    texts = ["a b&c=d/é", "😀", "plain"]
    for encode, decode in product(
        ("urlEncode", "urlEncodeFormComponent", "encodeUrl"), ("urlDecode", "urlDecodeFormComponent")
    ):
        assert call(encode, (STRING, texts)) == [quote_plus(text) for text in texts]
        assert call(decode, (STRING, call(encode, (STRING, texts)))) == texts
    assert call("urlDecode", (STRING, ["%zz", "%4", "a%", "%ff"])) == [None, None, None, "\ufffd"]
