"""Bytes as text, and hashes of bytes.

Hashes are lower-case hexadecimal text, CRC32 and ADLER32 (as INT, Java's int of the 32 bits) excepted. MURMURHASH2 is
Kafka's, with seed 0x9747b28c, also the hash of the Murmur partition function.
"""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Callable
from urllib.parse import quote_plus, unquote_plus

import numpy as np

from pinotpy.data_types import DataType
from pinotpy.errors import QueryExecutionError
from pinotpy.functions.scalar.conversions import bytes_of_hex
from pinotpy.functions.scalar.spec import Example, ScalarFunction
from pinotpy.functions.scalar.text_arguments import BYTES, TEXT, text_function


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise QueryExecutionError(f"expected base64 in FROMBASE64, found '{text[:40]}'") from error


def _decode_url(text: str) -> str:
    try:
        return unquote_plus(text, errors="strict")
    except UnicodeDecodeError as error:
        raise QueryExecutionError(f"expected percent-encoded UTF-8 in DECODEURL, found '{text[:40]}'") from error


def _java_int(bits: int) -> int:
    return bits - 2**32 if bits >= 2**31 else bits


def _murmur_hash2(data: bytes) -> int:
    # Here, so that a broker, which only asks for the types of functions, loads no kernels.
    from pinotpy.kernels.text.java_hashes import murmur2_texts

    out = np.zeros(1, np.uint32)
    murmur2_texts(np.array([0, len(data)], np.int64), np.frombuffer(data, np.uint8), out)
    return _java_int(int(out[0]))


def _hash(name: str, title: str, compute: Callable[[bytes], str], value: str) -> ScalarFunction:
    return text_function(
        name,
        f"{name.upper()}(bytes)",
        f"The {title} of bytes, in hexadecimal digits.",
        (BYTES,),
        compute,
        Example(f'{name}("by")', value),
    )


def _number_hash(name: str, title: str, compute: Callable[[bytes], int], value: int) -> ScalarFunction:
    summary = f"The {title} of bytes, a number of 32 bits."
    return text_function(
        name, f"{name.upper()}(bytes)", summary, (BYTES,), compute, Example(f'{name}("by")', value), gives=DataType.INT
    )


FUNCTIONS = (
    text_function(
        "bytestohex",
        "BYTESTOHEX(bytes)",
        "The bytes in hexadecimal digits.",
        (BYTES,),
        bytes.hex,
        Example('bytesToHex("by")', "0a0b"),
    ),
    text_function(
        "hextobytes",
        "HEXTOBYTES(text)",
        "The bytes of hexadecimal digits.",
        (TEXT,),
        bytes_of_hex,
        Example("hexToBytes('0a0b')", b"\x0a\x0b"),
        gives=DataType.BYTES,
    ),
    text_function(
        "tobase64",
        "TOBASE64(bytes)",
        "The bytes in base64.",
        (BYTES,),
        lambda data: base64.b64encode(data).decode(),
        Example('toBase64("by")', "Cgs="),
    ),
    text_function(
        "frombase64",
        "FROMBASE64(text)",
        "The bytes of base64.",
        (TEXT,),
        _from_base64,
        Example("fromBase64('Cgs=')", b"\x0a\x0b"),
        gives=DataType.BYTES,
    ),
    text_function(
        "encodeurl",
        "ENCODEURL(text)",
        "As a form in a URL has it: blanks as +, others percent-encoded.",
        (TEXT,),
        lambda text: quote_plus(text, safe="*").replace("~", "%7E"),
        Example("encodeUrl(s)", "Hello%2C+World"),
        aliases=("urlencode", "urlencodeformcomponent"),
    ),
    text_function(
        "decodeurl",
        "DECODEURL(text)",
        "The text of a percent-encoded one.",
        (TEXT,),
        _decode_url,
        Example("decodeUrl('Hello%2C+World')", "Hello, World"),
    ),
    _hash(
        "md5",
        "MD5",
        lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(),
        "5b1ad04637eedf255ed4f452cd26b3ed",
    ),
    _hash(
        "sha",
        "SHA-1",
        lambda data: hashlib.sha1(data, usedforsecurity=False).hexdigest(),
        "e26e7b993570e35ea17c3ce9ef344cfd0ac55c62",
    ),
    _hash(
        "sha224",
        "SHA-224",
        lambda data: hashlib.sha224(data).hexdigest(),
        "3f196c19f5534321334288811cb35376760b83cb7e5e861bbb46676e",
    ),
    _hash(
        "sha256",
        "SHA-256",
        lambda data: hashlib.sha256(data).hexdigest(),
        "bea0b72e71bfe7f15a88c25305bf96a9681e34d3aabe0c9a1b7093cb32d8ff05",
    ),
    _hash(
        "sha512",
        "SHA-512",
        lambda data: hashlib.sha512(data).hexdigest(),
        "fa473b72a63349991fc9b5a8b9006b9d071ce19a4dbad584486bfcb6fdd03af6b755717c96d567a118deb056acdf0493cedd6e32727eb2b0d262b97e5e8aa211",
    ),
    _number_hash("crc32", "CRC-32", lambda data: _java_int(zlib.crc32(data)), 753148925),
    _number_hash("adler32", "Adler-32", lambda data: _java_int(zlib.adler32(data)), 2162710),
    _number_hash("murmurhash2", "MurmurHash2", _murmur_hash2, 1114206615),
    text_function(
        "murmurhash2utf8",
        "MURMURHASH2UTF8(text)",
        "The MurmurHash2 of the bytes of a text in UTF-8, a number of 32 bits.",
        (TEXT,),
        lambda text: _murmur_hash2(text.encode()),
        Example("murmurHash2UTF8('testString')", -534425817),
        gives=DataType.INT,
    ),
    text_function(
        "md5raw",
        "MD5RAW(bytes)",
        "The MD5 of bytes, as bytes.",
        (BYTES,),
        lambda data: hashlib.md5(data, usedforsecurity=False).digest(),
        Example('md5Raw("by")', bytes.fromhex("5b1ad04637eedf255ed4f452cd26b3ed")),
        gives=DataType.BYTES,
    ),
)
