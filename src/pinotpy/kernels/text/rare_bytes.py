"""Places where three bytes stand at given distances, 64 places at a time: what a search for texts by rare bytes is made
of (substring_search.py).
"""

from __future__ import annotations

from typing import Any, Final

from llvmlite import ir
from numba import types, uint64
from numba.extending import intrinsic

from pinotpy.kernels.runtime.abi import inner
from pinotpy.kernels.runtime.byte_words import load_byte

LANES: Final = 64  # places that are looked at at once
_NEXT_RARE: Final = "pinotpy_next_rare"


def _in_all_lanes(builder: Any, value: Any) -> Any:
    index, vector = ir.IntType(32), ir.VectorType(ir.IntType(8), LANES)
    nothing = ir.Constant(vector, ir.Undefined)
    single = builder.insert_element(nothing, value, ir.Constant(index, 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(index, LANES), [0] * LANES))


def _equal_bits(builder: Any, address: Any, byte: Any, fold: Any) -> Any:
    """Bit i: (byte at address + i) | fold == byte, of 64; `byte` and `fold` in all lanes."""
    loaded = builder.load(builder.inttoptr(address, byte.type.as_pointer()), align=1)
    return builder.bitcast(builder.icmp_unsigned("==", builder.or_(loaded, fold), byte), ir.IntType(LANES))


@intrinsic
def rare_bits(
    typingctx: Any, a: Any, b: Any, c: Any, byte_a: Any, byte_b: Any, byte_c: Any, fold_a: Any, fold_b: Any, fold_c: Any
) -> Any:
    """Bit i: (byte at address a + i) | fold_a == byte_a, and so for b and c. Reads 64 bytes at each address."""
    signature = types.uint64(types.int64, types.int64, types.int64, *[types.uint8] * 6)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        vectors = [_in_all_lanes(builder, value) for value in arguments[3:]]
        equal = [_equal_bits(builder, arguments[i], vectors[i], vectors[3 + i]) for i in range(3)]
        return builder.and_(builder.and_(equal[0], equal[1]), equal[2])

    return signature, codegen


@intrinsic
def next_rare(
    typingctx: Any,
    place: Any,
    stop: Any,
    a: Any,
    b: Any,
    c: Any,
    byte_a: Any,
    byte_b: Any,
    byte_c: Any,
    fold_a: Any,
    fold_b: Any,
    fold_c: Any,
) -> Any:
    """The first of place, place + 64, … up to `stop` where rare_bits(a + place, …) are not 0; else the first beyond
    `stop`.

    a <= b <= c < a + 64. Reads 128 bytes at a + place.
    """
    signature = types.int64(*[types.int64] * 5, *[types.uint8] * 6)

    def codegen(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function = builder.module.globals.get(_NEXT_RARE) or _next_rare_function(builder.module)
        return builder.call(function, arguments)

    return signature, codegen


def _next_rare_function(module: Any) -> Any:
    # Every byte is loaded once: bits of b and c are moved to where a's are, from this 64 bytes and the next. Never
    # inlined: among calls the vectors would live in memory, and be read again for every 64 bytes.
    word, byte = ir.IntType(64), ir.IntType(8)
    function = ir.Function(module, ir.FunctionType(word, [word] * 5 + [byte] * 6), _NEXT_RARE)
    function.linkage = "internal"
    function.attributes.add("noinline")
    first, stop, a, b, c, *values = function.args
    entry, begin, head, body, onward, done = (
        function.append_basic_block(name) for name in ("entry", "begin", "head", "body", "onward", "done")
    )
    builder = ir.IRBuilder(entry)
    vectors = [_in_all_lanes(builder, value) for value in values]
    distances = [builder.sub(address, a) for address in (b, c)]
    rests = [builder.sub(ir.Constant(word, 63), distance) for distance in distances]
    builder.cbranch(builder.icmp_signed("<=", first, stop), begin, done)
    builder.position_at_end(begin)
    at_first = [_equal_bits(builder, builder.add(a, first), vectors[i], vectors[3 + i]) for i in range(3)]
    builder.branch(head)
    builder.position_at_end(head)
    place, *here = (builder.phi(word) for _ in range(4))
    for phi, value in zip([place, *here], [first, *at_first], strict=True):
        phi.add_incoming(value, begin)
    builder.cbranch(builder.icmp_signed("<=", place, stop), body, done)
    builder.position_at_end(body)
    following = builder.add(place, ir.Constant(word, LANES))
    there = [_equal_bits(builder, builder.add(a, following), vectors[i], vectors[3 + i]) for i in range(3)]
    bits = here[0]
    for i, (distance, rest) in enumerate(zip(distances, rests, strict=True), 1):
        high = builder.shl(builder.shl(there[i], ir.Constant(word, 1)), rest)
        bits = builder.and_(bits, builder.or_(builder.lshr(here[i], distance), high))
    builder.cbranch(builder.icmp_unsigned("!=", bits, ir.Constant(word, 0)), done, onward)
    builder.position_at_end(onward)
    for phi, value in zip([place, *here], [following, *there], strict=True):
        phi.add_incoming(value, onward)
    builder.branch(head)
    builder.position_at_end(done)
    result = builder.phi(word)
    for value, block in ((first, entry), (place, head), (place, body)):
        result.add_incoming(value, block)
    builder.ret(result)
    return function


@inner
def few_rare_bits(
    count: int, a: int, b: int, c: int, byte_a: Any, byte_b: Any, byte_c: Any, fold_a: Any, fold_b: Any, fold_c: Any
) -> Any:
    """The first `count` (to 64) bits of rare_bits, reading no byte beyond them."""
    bits = uint64(0)
    for i in range(count):
        is_rare = (load_byte(a + i) | uint64(fold_a)) == byte_a and (load_byte(b + i) | uint64(fold_b)) == byte_b
        bits |= uint64(is_rare and (load_byte(c + i) | uint64(fold_c)) == byte_c) << uint64(i)
    return bits
