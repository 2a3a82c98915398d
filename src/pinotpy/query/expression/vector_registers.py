"""Where the values of lanes are while an expression is computed: in columns that nothing has read yet, in chains of
arithmetic that are not emitted yet, in registers; and where their null flags are. What computes with them is
vector_ops.py.
"""

from __future__ import annotations

from pinotpy.data_types import DataType
from pinotpy.kernels.vector import boolean, fused_program
from pinotpy.query.expression.fusion import Chain, Column, Constant, Register, emit_chain, leaf
from pinotpy.query.expression.vectors import ALWAYS, NEVER, Kind, Lane, Target, constant_word
from pinotpy.query.runtime.instructions import Word


class LaneRegisters:
    """Emits what gives a lane its values and takes the registers of a target; a new lane frees the registers of those
    that it took.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    # --- registers ---------------------------------------------------------------------------------------------------

    def free(self, *lanes: Lane) -> None:
        """Give back the registers of values and of null flags."""
        for lane in lanes:
            self._free_values(lane)
            if lane.owned_nulls:
                self.target.release(lane.nulls)
                lane.owned_nulls = False

    def _free_values(self, lane: Lane) -> None:
        if lane.owned:
            self.target.release(lane.register)
            lane.owned = False
        if lane.chain is not None:
            for source in lane.chain.operands():
                if isinstance(source, Register) and source.owned:
                    self.target.release(source.number)
            lane.chain = None

    # --- chains ------------------------------------------------------------------------------------------------------

    def column(self, name: str, kind: Kind, data_type: DataType, nulls: tuple[int, bool] | None) -> Lane:
        """The values of a column, which nothing has read yet."""
        lane = Lane(kind, data_type, chain=leaf(Column(name, kind is Kind.LONG)))
        if nulls is not None:
            lane.nulls, lane.owned_nulls = nulls
        return lane

    def emitted(self, lane: Lane, *, canonical: bool = False) -> Lane:
        """The lane with its values in a register; canonical: of a chain with operations they may be looked at as bits
        then.
        """
        chain = lane.chain
        if chain is None:
            return lane
        lane.chain = None
        if chain.column is not None and chain.column.is_long is (lane.kind is Kind.LONG):
            lane.register, lane.owned = self.target.fetch(chain.column.name)
            return lane
        if canonical:
            chain = chain.then(fused_program.CANONICAL)
        lane.register, lane.owned = emit_chain(chain.then(fused_program.STORE), self.target), True
        return lane

    def _taken(self, lane: Lane) -> Chain:
        """The chain of a lane of doubles that is no constant; the lane's values are the chain's."""
        chain = leaf(Register(lane.register, False, lane.owned)) if lane.chain is None else lane.chain
        lane.chain, lane.owned = None, False
        return chain

    def _chained(self, chain: Chain, data_type: DataType, taken: list[Lane]) -> Lane:
        lane = Lane(Kind.DOUBLE, data_type, chain=chain)
        source = self.united_nulls(taken)
        lane.nulls, lane.owned_nulls = source.nulls, source.owned_nulls
        return lane

    def _joined(self, operations: tuple[int, int], left: Lane, right: Lane) -> Chain:
        """The chain of two lanes of doubles; what is too long for one instruction is emitted up to here."""
        if left.is_constant:
            return self._fitting(right).then(operations[1], Constant(constant_word(left)))
        if right.is_constant:
            return self._fitting(left).then(operations[0], Constant(constant_word(right)))
        for lane in sorted((left, right), key=lambda each: 0 if each.chain is None else -len(each.chain.operands())):
            one, other = (
                each.chain if each.chain is not None else leaf(Register(each.register, False, False))
                for each in (left, right)
            )
            if one.with_chain(operations, other).fits():
                break
            self.emitted(lane)
        return self._taken(left).with_chain(operations, self._taken(right))

    def _fitting(self, lane: Lane) -> Chain:
        """The chain of a lane that one step more can follow."""
        if lane.chain is not None and not lane.chain.then(fused_program.SET).fits():
            self.emitted(lane)
        return self._taken(lane)

    def _written(self, chain: Chain, taken: list[Lane]) -> Lane:
        """Flags of a chain that ends with a comparison."""
        lane = Lane(Kind.FLAGS, DataType.BOOLEAN, emit_chain(chain, self.target), owned=True)
        source = self.united_nulls(taken)
        lane.nulls, lane.owned_nulls = source.nulls, source.owned_nulls
        return lane

    def _made(
        self, kind: Kind, data_type: DataType, taken: list[Lane], function: int, *args: Word, nulls: Lane | None = None
    ) -> Lane:
        """A lane in a new register by one instruction (`args` behind the register); null where one of `taken` is, or as
        `nulls` says."""
        register = self.target.allocate()
        self.target.emit(function, register, *args)
        lane = Lane(kind, data_type, register, owned=True)
        source = self.united_nulls(taken) if nulls is None else nulls
        lane.nulls, lane.owned_nulls = source.nulls, source.owned_nulls
        for one in taken:
            self._free_values(one)
        return lane

    def united_nulls(self, lanes: list[Lane]) -> Lane:
        """Null where one of the lanes is: a lane of null flags only; takes over their registers."""
        out = Lane(Kind.FLAGS, None)
        if any(lane.nulls == ALWAYS for lane in lanes):
            for lane in lanes:
                if lane.owned_nulls:
                    self.target.release(lane.nulls)
                    lane.owned_nulls = False
            out.nulls = ALWAYS
            return out
        for lane in lanes:
            if lane.nulls == NEVER:
                continue
            if lane.nulls == out.nulls:
                if lane.owned_nulls and out.owned_nulls:
                    self.target.release(lane.nulls)
                out.owned_nulls |= lane.owned_nulls
                lane.owned_nulls = False
                continue
            if out.nulls == NEVER:
                out.nulls, out.owned_nulls = lane.nulls, lane.owned_nulls
                lane.owned_nulls = False
                continue
            register = self.target.allocate()
            self.target.emit(boolean.combine_flags.address, register, out.nulls, lane.nulls, boolean.OR)
            for one in (out, lane):
                if one.owned_nulls:
                    self.target.release(one.nulls)
                    one.owned_nulls = False
            out.nulls, out.owned_nulls = register, True
        return out

    # --- flags -------------------------------------------------------------------------------------------------------

    def flags(self, operation: int, left: int, right: int) -> Lane:
        """An operation on registers of flags, which stay as they are."""
        register = self.target.allocate()
        self.target.emit(boolean.combine_flags.address, register, left, right, operation)
        return Lane(Kind.FLAGS, DataType.BOOLEAN, register, owned=True)

    def constant_flags(self, value: bool) -> int:
        """A register of equal flags."""
        register = self.target.allocate()
        self.target.emit(boolean.fill_flags.address, register, int(value))
        return register
