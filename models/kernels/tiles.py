"""Small products of float32 matrices in tiles that stay in vector registers; every sum has one fixed order.

LLVM's vectorizer would keep the sums in memory, which takes most of the time at these sizes (some ten rows and
columns), and a library's order of summation changes with the number of rows. Here an element is start + Σ a b, added
in ascending order, each product and each sum rounded on its own. Its bits depend on nothing else: not on the tile it
lies in, nor on the machine.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from leap.models.kernels.compiling import kernel
from leap.models.kernels.lanes import SIZE, array_at, repeated

HALF, FULL = 8, 16
"""Columns of a tile."""


def _tile(height: int, width: int) -> Any:
    """Return a function for loops that fills height × width elements: out[i, j] = start[j] + Σ_k a[i, k] b[k, j].

    It takes the address of `a`, the steps between its rows and its columns, the address of `b` and the step between its
    rows, how many k there are, the address of `start`, and that of `out` with the step between its rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, a_row, a_column, b, b_row, count, start, out, out_row = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), width)

        def times(value: Any, factor: int) -> Any:
            return builder.mul(value, ir.Constant(value.type, factor))

        def place(address: Any, index: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, times(index, SIZE)), kind.as_pointer())

        begin = builder.load(builder.inttoptr(start, vector.as_pointer()), align=SIZE)
        sums = [cgutils.alloca_once_value(builder, begin) for _ in range(height)]  # promoted to registers
        with cgutils.for_range(builder, count) as loop:
            right = builder.load(place(b, builder.mul(loop.index, b_row), vector), align=SIZE)
            column = builder.mul(loop.index, a_column)
            for i in range(height):
                left = builder.load(place(a, builder.add(times(a_row, i), column), number), align=SIZE)
                product = builder.fmul(repeated(builder, left, width), right)
                builder.store(builder.fadd(builder.load(sums[i]), product), sums[i])
        for i in range(height):
            builder.store(builder.load(sums[i]), place(out, times(out_row, i), vector), align=SIZE)
        return context.get_dummy_value()

    def typed(
        typing_context: Any,
        a: Any,
        a_row: Any,
        a_column: Any,
        b: Any,
        b_row: Any,
        count: Any,
        start: Any,
        out: Any,
        out_row: Any,
    ) -> Any:
        return types.void(*[types.intp] * 9), generate

    return intrinsic(typed)


_four_full, _one_full = _tile(4, FULL), _tile(1, FULL)
_eight_half, _four_half, _one_half = _tile(8, HALF), _tile(4, HALF), _tile(1, HALF)


@kernel
def padded(width: int) -> int:
    """Return how many columns `b` and `start` of `multiply` need for this many of `out`."""
    return -(-width // HALF) * HALF


@kernel
def multiply(
    a: int,
    a_row: int,
    a_column: int,
    b: int,
    b_row: int,
    count: int,
    start: int,
    out: int,
    out_row: int,
    height: int,
    width: int,
    spare: int,
) -> None:
    """Fill out[i, j] = start[j] + Σ_k a[i, k] b[k, j] for height × width elements.

    All arrays are given by address, their strides in elements.

    Parameters
    ----------
    b, start : with `padded(width)` columns, the last of which may hold anything.
    count : number of k.
    spare : room for a tile of 8 × 16.
    """
    for j in range(0, width, FULL):
        left = width - j
        right, begin = b + SIZE * j, start + SIZE * j
        is_whole = left >= FULL or left == HALF
        i = 0
        while i < height:
            rows = 8 if left <= HALF and height - i >= 8 else 4 if height - i >= 4 else 1
            target = out + SIZE * (i * out_row + j) if is_whole else spare
            step = out_row if is_whole else FULL
            source = a + SIZE * i * a_row
            if left > HALF:
                if rows == 4:
                    _four_full(source, a_row, a_column, right, b_row, count, begin, target, step)
                else:
                    _one_full(source, a_row, a_column, right, b_row, count, begin, target, step)
            elif rows == 8:
                _eight_half(source, a_row, a_column, right, b_row, count, begin, target, step)
            elif rows == 4:
                _four_half(source, a_row, a_column, right, b_row, count, begin, target, step)
            else:
                _one_half(source, a_row, a_column, right, b_row, count, begin, target, step)
            if not is_whole:
                tile = array_at(spare, (rows, FULL))
                for p in range(rows):
                    line = array_at(out + SIZE * ((i + p) * out_row + j), (left,))
                    for q in range(left):
                        line[q] = tile[p, q]
            i += rows


@kernel
def turn(source: int, step: int, height: int, width: int, target: int, target_step: int) -> None:
    """Fill the transpose of height × width elements."""
    own = array_at(target, (width, target_step))
    for r in range(height):
        line = array_at(source + SIZE * r * step, (width,))
        for c in range(width):
            own[c, r] = line[c]


@kernel
def pad(source: int, step: int, height: int, width: int, target: int, target_step: int) -> None:
    """Copy height × width elements to longer rows."""
    own = array_at(target, (height, target_step))
    for r in range(height):
        line = array_at(source + SIZE * r * step, (width,))
        for c in range(width):
            own[r, c] = line[c]
