"""Eight float32 numbers at once, for loops whose sums LLVM's vectorizer may not reorder.

A value of the type `Lanes` lives in a vector register. Every operation rounds as the scalar one does, and `total` adds
in one fixed order, so results do not depend on the machine. Arrays are given by address.
"""

import inspect
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

SIZE = 4
"""Bytes of a float32."""
COUNT = 8
"""Numbers of `Lanes`."""

_FLOAT, _INTEGER = ir.FloatType(), ir.IntType(32)


class Lanes(types.Type):
    """Numba's type of eight numbers."""


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, ir.VectorType(_FLOAT, COUNT))


_LANES = Lanes("Lanes")


def _operation(result: Any, *arguments: Any) -> Callable[[Callable[..., Any]], Any]:
    """Turn a function that emits code, given a builder and the arguments' values, into one for loops."""

    def made(emit: Callable[..., Any]) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            value = emit(builder, *values)
            return context.get_dummy_value() if value is None else value

        def typed(typing_context: Any, *given: Any) -> Any:
            return result(*arguments), generate

        typed.__signature__ = inspect.signature(emit)  # type: ignore[attr-defined]
        return intrinsic(typed)

    return made


def repeated(builder: Any, value: Any, count: int = COUNT) -> Any:
    """Emit a vector that holds one number in all places."""
    empty = ir.Constant(ir.VectorType(value.type, count), ir.Undefined)
    lane = builder.insert_element(empty, value, ir.Constant(_INTEGER, 0))
    return builder.shuffle_vector(lane, lane, ir.Constant(ir.VectorType(_INTEGER, count), [0] * count))


def summed(builder: Any, lanes: Any) -> Any:
    """Emit the sum of eight numbers."""
    for count in (4, 2, 1):
        halves = (
            builder.shuffle_vector(lanes, lanes, ir.Constant(ir.VectorType(_INTEGER, count), [*range(a, a + count)]))
            for a in (0, count)
        )
        lanes = builder.fadd(*halves)
    return builder.extract_element(lanes, ir.Constant(_INTEGER, 0))


def _constant(kind: Any, value: float, count: int = COUNT) -> Any:
    return ir.Constant(ir.VectorType(kind, count), [value] * count)


@_operation(types.voidptr, types.intp)
def _pointer(builder: Any, address: Any) -> Any:
    return builder.inttoptr(address, cgutils.voidptr_t)


@numba.njit(inline="always")
def array_at(address: int, shape: Any) -> Any:
    """Return the contiguous float32 array of this shape at an address."""
    return numba.carray(_pointer(address), shape, np.float32)  # type: ignore[attr-defined]


@_operation(_LANES, types.intp)
def load(builder: Any, address: Any) -> Any:
    """Read from an address."""
    return builder.load(builder.inttoptr(address, ir.VectorType(_FLOAT, COUNT).as_pointer()), align=SIZE)


@_operation(types.void, types.intp, _LANES)
def store(builder: Any, address: Any, lanes: Any) -> None:
    """Write to an address."""
    builder.store(lanes, builder.inttoptr(address, lanes.type.as_pointer()), align=SIZE)


@_operation(_LANES, types.float32)
def spread(builder: Any, value: Any) -> Any:
    """Repeat one number."""
    return repeated(builder, value)


@_operation(_LANES, _LANES, _LANES)
def plus(builder: Any, a: Any, b: Any) -> Any:
    """Return a + b."""
    return builder.fadd(a, b)


@_operation(_LANES, _LANES, _LANES)
def minus(builder: Any, a: Any, b: Any) -> Any:
    """Return a - b."""
    return builder.fsub(a, b)


@_operation(_LANES, _LANES, _LANES)
def times(builder: Any, a: Any, b: Any) -> Any:
    """Return a b."""
    return builder.fmul(a, b)


@_operation(_LANES, _LANES, _LANES)
def over(builder: Any, a: Any, b: Any) -> Any:
    """Return a / b."""
    return builder.fdiv(a, b)


@_operation(_LANES, _LANES, _LANES)
def larger(builder: Any, a: Any, b: Any) -> Any:
    """Return b where it is greater than a, else a."""
    return builder.select(builder.fcmp_ordered(">", b, a), b, a)


@_operation(types.float32, _LANES)
def total(builder: Any, lanes: Any) -> Any:
    """Return the sum: of halves, of their halves, of the last two."""
    return summed(builder, lanes)


@_operation(_LANES, _LANES)
def exponential(builder: Any, x: Any) -> Any:
    """Return exp(x) of numbers that are not positive, within two units in the last place; 0 below -87.

    x = n ln 2 + r with |r| ≤ ln 2 / 2, ln 2 in two parts so that r is exact; exp(r) is a polynomial (Cephes).
    """
    low = _constant(_FLOAT, -87.0)
    inside = builder.select(builder.fcmp_ordered(">", x, low), x, low)
    scaled = builder.fmul(inside, _constant(_FLOAT, 1.44269504))
    whole = builder.fptosi(builder.fsub(scaled, _constant(_FLOAT, 0.5)), ir.VectorType(_INTEGER, COUNT))
    power = builder.sitofp(whole, x.type)
    rest = inside
    for part in (0.693359375, -2.12194440e-4):
        rest = builder.fsub(rest, builder.fmul(power, _constant(_FLOAT, part)))
    value = _constant(_FLOAT, 1.9875691500e-4)
    for coefficient in (1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1):
        value = builder.fadd(builder.fmul(value, rest), _constant(_FLOAT, coefficient))
    value = builder.fadd(builder.fmul(value, builder.fmul(rest, rest)), rest)
    value = builder.fadd(value, _constant(_FLOAT, 1.0))
    bits = builder.shl(builder.add(whole, _constant(_INTEGER, 127)), _constant(_INTEGER, 23))
    value = builder.fmul(value, builder.bitcast(bits, x.type))
    value = builder.select(builder.fcmp_ordered("<", x, low), _constant(_FLOAT, 0.0), value)
    return builder.select(builder.fcmp_unordered("uno", x, x), x, value)
