"""Where the values of vectors are while an expression is computed: in columns that nothing has read yet, in fused
programs of arithmetic that are not emitted yet, in registers; and where their null flags are. What computes with them
is vector_ops.py.
"""

from __future__ import annotations

from pinotpy.data_types import DataType
from pinotpy.kernels.vector import boolean, fused_program
from pinotpy.query.expression.fusion import Column, Constant, FusedProgram, Register, emit_program, leaf
from pinotpy.query.expression.vectors import ALWAYS, NEVER, Kind, Target, Vector, constant_word
from pinotpy.query.runtime.instructions import Word


class VectorRegisters:
    """Emits what gives a vector its values and takes the registers of a target; a new vector frees the registers of
    those that it took.
    """

    def __init__(self, target: Target) -> None:
        self.target = target

    # --- registers ---------------------------------------------------------------------------------------------------

    def free(self, *ops: Vector) -> None:
        """Give back the registers of values and of null flags."""
        for vector in ops:
            self._free_values(vector)
            if vector.owned_nulls:
                self.target.release(vector.nulls)
                vector.owned_nulls = False

    def _free_values(self, vector: Vector) -> None:
        if vector.owned:
            self.target.release(vector.register)
            vector.owned = False
        if vector.fused is not None:
            for source in vector.fused.operands():
                if isinstance(source, Register) and source.owned:
                    self.target.release(source.number)
            vector.fused = None

    # --- fused programs
    # ------------------------------------------------------------------------------------------------------

    def column(self, name: str, kind: Kind, data_type: DataType, nulls: tuple[int, bool] | None) -> Vector:
        """The values of a column, which nothing has read yet."""
        vector = Vector(kind, data_type, fused=leaf(Column(name, kind is Kind.LONG)))
        if nulls is not None:
            vector.nulls, vector.owned_nulls = nulls
        return vector

    def emitted(self, vector: Vector, *, canonical: bool = False) -> Vector:
        """The vector with its values in a register; canonical: of a fused program with operations they may be looked at
        as bits then.
        """
        fused = vector.fused
        if fused is None:
            return vector
        vector.fused = None
        if fused.column is not None and fused.column.is_long is (vector.kind is Kind.LONG):
            vector.register, vector.owned = self.target.fetch(fused.column.name)
            return vector
        if canonical:
            fused = fused.then(fused_program.CANONICAL)
        vector.register, vector.owned = emit_program(fused.then(fused_program.STORE), self.target), True
        return vector

    def _taken(self, vector: Vector) -> FusedProgram:
        """The fused program of a vector of doubles that is no constant; the vector's values are the fused program's."""
        fused = leaf(Register(vector.register, False, vector.owned)) if vector.fused is None else vector.fused
        vector.fused, vector.owned = None, False
        return fused

    def _fused(self, fused: FusedProgram, data_type: DataType, taken: list[Vector]) -> Vector:
        vector = Vector(Kind.DOUBLE, data_type, fused=fused)
        source = self.united_nulls(taken)
        vector.nulls, vector.owned_nulls = source.nulls, source.owned_nulls
        return vector

    def _joined(self, operations: tuple[int, int], left: Vector, right: Vector) -> FusedProgram:
        """The fused program of two vectors of doubles; what is too long for one instruction is emitted up to here."""
        if left.is_constant:
            return self._fitting(right).then(operations[1], Constant(constant_word(left)))
        if right.is_constant:
            return self._fitting(left).then(operations[0], Constant(constant_word(right)))
        for vector in sorted((left, right), key=lambda each: 0 if each.fused is None else -len(each.fused.operands())):
            one, other = (
                each.fused if each.fused is not None else leaf(Register(each.register, False, False))
                for each in (left, right)
            )
            if one.with_program(operations, other).fits():
                break
            self.emitted(vector)
        return self._taken(left).with_program(operations, self._taken(right))

    def _fitting(self, vector: Vector) -> FusedProgram:
        """The fused program of a vector that one step more can follow."""
        if vector.fused is not None and not vector.fused.then(fused_program.SET).fits():
            self.emitted(vector)
        return self._taken(vector)

    def _written(self, fused: FusedProgram, taken: list[Vector]) -> Vector:
        """Flags of a fused program that ends with a comparison."""
        vector = Vector(Kind.FLAGS, DataType.BOOLEAN, emit_program(fused, self.target), owned=True)
        source = self.united_nulls(taken)
        vector.nulls, vector.owned_nulls = source.nulls, source.owned_nulls
        return vector

    def _made(
        self,
        kind: Kind,
        data_type: DataType,
        taken: list[Vector],
        function: int,
        *args: Word,
        nulls: Vector | None = None,
    ) -> Vector:
        """A vector in a new register by one instruction (`args` behind the register); null where one of `taken` is, or
        as `nulls` says.
        """
        register = self.target.allocate()
        self.target.emit(function, register, *args)
        vector = Vector(kind, data_type, register, owned=True)
        source = self.united_nulls(taken) if nulls is None else nulls
        vector.nulls, vector.owned_nulls = source.nulls, source.owned_nulls
        for one in taken:
            self._free_values(one)
        return vector

    def united_nulls(self, ops: list[Vector]) -> Vector:
        """Null where one of the vectors is: a vector of null flags only; takes over their registers."""
        out = Vector(Kind.FLAGS, None)
        if any(vector.nulls == ALWAYS for vector in ops):
            for vector in ops:
                if vector.owned_nulls:
                    self.target.release(vector.nulls)
                    vector.owned_nulls = False
            out.nulls = ALWAYS
            return out
        for vector in ops:
            if vector.nulls == NEVER:
                continue
            if vector.nulls == out.nulls:
                if vector.owned_nulls and out.owned_nulls:
                    self.target.release(vector.nulls)
                out.owned_nulls |= vector.owned_nulls
                vector.owned_nulls = False
                continue
            if out.nulls == NEVER:
                out.nulls, out.owned_nulls = vector.nulls, vector.owned_nulls
                vector.owned_nulls = False
                continue
            register = self.target.allocate()
            self.target.emit(boolean.combine_flags.address, register, out.nulls, vector.nulls, boolean.OR)
            for one in (out, vector):
                if one.owned_nulls:
                    self.target.release(one.nulls)
                    one.owned_nulls = False
            out.nulls, out.owned_nulls = register, True
        return out

    # --- flags -------------------------------------------------------------------------------------------------------

    def flags(self, operation: int, left: int, right: int) -> Vector:
        """An operation on registers of flags, which stay as they are."""
        register = self.target.allocate()
        self.target.emit(boolean.combine_flags.address, register, left, right, operation)
        return Vector(Kind.FLAGS, DataType.BOOLEAN, register, owned=True)

    def constant_flags(self, value: bool) -> int:
        """A register of equal flags."""
        register = self.target.allocate()
        self.target.emit(boolean.fill_flags.address, register, int(value))
        return register
