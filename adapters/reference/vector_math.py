"""Vectors of float32 inside numba kernels: a type, its arithmetic, and the functions that Mamba needs.

numba leaves it to LLVM whether a loop becomes vector code, and calls the C library for exp and log one number at a
time. Here the kernels say what is a vector; LLVM maps it to what the machine has (AVX, SSE, NEON).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import ConcreteTemplate, infer_global, signature
from numba.extending import intrinsic as numba_intrinsic
from numba.extending import lower_builtin, models, register_model

__all__ = [
    "FLOAT",
    "LANES",
    "LOG2_E",
    "add_total",
    "at_most_zero",
    "exp2",
    "load",
    "scaled_by_ln_2",
    "sigmoid",
    "silu",
    "silu_slope",
    "softplus",
    "spread",
    "store",
    "zeros",
]

FLOAT = np.float32
LANES = 16
"""Channels a vector holds: one cache line."""
LOG2_E, LN_2 = 1.4426950408889634, 0.6931471805599453
# 2**f on [-1/2, 1/2], minimax with error 1e-7 and exact at 0; highest power first.
EXP2_POLYNOMIAL = (
    0.0013264727140002563,
    0.009671512639958614,
    0.05550733743470423,
    0.24022242085376713,
    0.6931469775989918,
    1.0,
)
# artanh(s) / s in powers of s**2, for s up to 1/3.
ARTANH_SERIES = tuple(1 / k for k in (13, 11, 9, 7, 5, 3, 1))

F32, I32 = ir.FloatType(), ir.IntType(32)
VECTOR, INTEGERS = ir.VectorType(F32, LANES), ir.VectorType(I32, LANES)
# Products and sums may fuse; nothing else is rearranged.
FLAGS = ("contract",)


def intrinsic(function: Any) -> Any:
    """A function of kernels whose LLVM code is written here; called without the context that `function` takes."""
    return numba_intrinsic(function)


class Code:
    """A vector value of the code that is being generated: arithmetic on it emits instructions."""

    def __init__(self, builder: Any, value: Any) -> None:
        self.builder, self.value = builder, value

    def _operand(self, other: Code | float) -> Any:
        return other.value if isinstance(other, Code) else ir.Constant(VECTOR, [other] * LANES)

    def _emit(self, instruction: str, *operands: Any) -> Code:
        return Code(self.builder, getattr(self.builder, instruction)(*operands, flags=FLAGS))

    def __add__(self, other: Code | float) -> Code:
        return self._emit("fadd", self.value, self._operand(other))

    def __sub__(self, other: Code | float) -> Code:
        return self._emit("fsub", self.value, self._operand(other))

    def __mul__(self, other: Code | float) -> Code:
        return self._emit("fmul", self.value, self._operand(other))

    def __truediv__(self, other: Code | float) -> Code:
        return self._emit("fdiv", self.value, self._operand(other))

    def __rtruediv__(self, other: float) -> Code:
        return self._emit("fdiv", self._operand(other), self.value)

    def at_least(self, limit: float) -> Code:
        """The larger of each lane and `limit`; NaN stays NaN."""
        low = self._operand(limit)
        return Code(self.builder, self.builder.select(self.builder.fcmp_ordered("<", self.value, low), low, self.value))

    def at_most(self, limit: float) -> Code:
        """The smaller of each lane and `limit`; NaN stays NaN."""
        high = self._operand(limit)
        above = self.builder.fcmp_ordered(">", self.value, high)
        return Code(self.builder, self.builder.select(above, high, self.value))

    def called(self, function: str) -> Code:
        """LLVM's intrinsic `function` of each lane."""
        kind = ir.FunctionType(VECTOR, [VECTOR])
        callee = cgutils.get_or_insert_function(self.builder.module, kind, f"llvm.{function}.v{LANES}f32")
        return Code(self.builder, self.builder.call(callee, [self.value]))

    def polynomial(self, coefficients: Sequence[float]) -> Code:
        """Horner's scheme, highest power first."""
        total = Code(self.builder, self._operand(coefficients[0]))
        for coefficient in coefficients[1:]:
            total = total * self + coefficient
        return total

    def exp2(self) -> Code:
        """2**x for x <= 127, relative error below 2.5e-7; below -126 it stays at 2**-126."""
        x = self.at_least(-126.0)
        whole = x.called("rint")
        fraction = (x - whole).polynomial(EXP2_POLYNOMIAL)
        # Adding to the exponent bits multiplies by a power of two.
        exponent = self.builder.shl(self.builder.fptosi(whole.value, INTEGERS), ir.Constant(INTEGERS, [23] * LANES))
        bits = self.builder.add(self.builder.bitcast(fraction.value, INTEGERS), exponent)
        return Code(self.builder, self.builder.bitcast(bits, VECTOR))

    def sigmoid(self) -> Code:
        """1 / (1 + exp(-x))."""
        return 1.0 / ((self.at_least(-80.0).at_most(80.0) * -LOG2_E).exp2() + 1.0)

    def silu_slope(self) -> Code:
        """The derivative of x sigmoid(x)."""
        s = self.sigmoid()
        return s + self * s * (s * -1.0 + 1.0)

    def softplus(self) -> Code:
        """log(1 + exp(x)) = max(x, 0) + 2 artanh(s) with e = exp(-|x|), s = e / (2 + e)."""
        e = (self.called("fabs") * -LOG2_E).exp2()
        s = e / (e + 2.0)
        return self.at_least(0.0) + s * (s * s).polynomial(ARTANH_SERIES) * 2.0


class Vector(types.Type):
    """numba's view of `LANES` float32 numbers in registers."""

    def __init__(self) -> None:
        super().__init__(name=f"Vector{LANES}")


vector = Vector()


@register_model(Vector)
class VectorModel(models.PrimitiveModel):
    """A vector is one LLVM vector."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


def _arithmetic(symbol: Callable[[Any, Any], Any]) -> None:
    """Teach numba `symbol` between two vectors."""

    class TwoVectors(ConcreteTemplate):
        cases = [signature(vector, vector, vector)]  # noqa: RUF012 (numba reads it from the class)

    def generate(_context: Any, builder: Any, _signature: Any, operands: Any) -> Any:
        return symbol(Code(builder, operands[0]), Code(builder, operands[1])).value

    declare: Any = infer_global(symbol)
    declare(TwoVectors)
    lower_builtin(symbol, vector, vector)(generate)


for _symbol in (operator.add, operator.sub, operator.mul):
    _arithmetic(_symbol)


def _function(of: Callable[[Code], Code]) -> Any:
    """The numba function that applies `of` to each lane."""

    @intrinsic
    def apply(_context: Any, x: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, operands: Any) -> Any:
            return of(Code(builder, operands[0])).value

        return signature(vector, x), generate

    return apply


exp2, sigmoid, softplus = _function(Code.exp2), _function(Code.sigmoid), _function(Code.softplus)
scaled_by_ln_2 = _function(lambda x: x * LN_2)
at_most_zero = _function(lambda x: x.at_most(0.0))
silu, silu_slope = _function(lambda x: x * x.sigmoid()), _function(Code.silu_slope)


def _address(context: Any, builder: Any, array_type: Any, array: Any, index: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.gep(data, [index])


@intrinsic
def zeros(_context: Any) -> Any:
    """A vector of zeros."""

    def generate(_context: Any, _builder: Any, _signature: Any, _operands: Any) -> Any:
        return ir.Constant(VECTOR, [0.0] * LANES)

    return signature(vector), generate


@intrinsic
def load(_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001 (numba counts the names)
    """The vector that starts at `index` of a flat float32 array."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        place = _address(context, builder, signature.args[0], *operands)
        return builder.load(builder.bitcast(place, VECTOR.as_pointer()), align=4)

    return signature(vector, array, types.intp), generate


@intrinsic
def store(_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """Write a vector from `index` of a flat float32 array on."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        place = _address(context, builder, signature.args[0], *operands[:2])
        builder.store(operands[2], builder.bitcast(place, VECTOR.as_pointer()), align=4)
        return context.get_dummy_value()

    return signature(types.void, array, types.intp, value), generate


@intrinsic
def spread(_context: Any, array: Any, index: Any) -> Any:  # noqa: ARG001
    """The number at `index` of a flat float32 array, in every lane."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        number = builder.load(_address(context, builder, signature.args[0], *operands))
        lane = builder.insert_element(ir.Constant(VECTOR, ir.Undefined), number, ir.Constant(I32, 0))
        return builder.shuffle_vector(lane, ir.Constant(VECTOR, ir.Undefined), ir.Constant(INTEGERS, [0] * LANES))

    return signature(vector, array, types.intp), generate


@intrinsic
def add_total(_context: Any, array: Any, index: Any, value: Any) -> Any:  # noqa: ARG001
    """Add the sum of a vector's lanes to the number at `index` of a flat float32 array."""

    def generate(context: Any, builder: Any, signature: Any, operands: Any) -> Any:
        total, lanes = operands[2], LANES
        while lanes > 1:
            lanes //= 2
            low, high = (
                builder.shuffle_vector(
                    total, ir.Constant(total.type, ir.Undefined), ir.Constant(ir.VectorType(I32, lanes), places)
                )
                for places in (list(range(lanes)), list(range(lanes, 2 * lanes)))
            )
            total = builder.fadd(low, high)
        place = _address(context, builder, signature.args[0], *operands[:2])
        builder.store(builder.fadd(builder.load(place), builder.extract_element(total, ir.Constant(I32, 0))), place)
        return context.get_dummy_value()

    return signature(types.void, array, types.intp, value), generate
