"""Small products of float32 matrices in tiles that stay in vector registers; every sum has one fixed order.

LLVM's vectorizer would keep the sums in memory, which takes most of the time at these sizes (some ten rows and
columns), and a library's order of summation changes with the number of rows. Here an element is start + Σ a b, added
in ascending order, each product and each sum rounded on its own. Its bits depend on nothing else: not on the tile it
lies in, nor on the machine.
"""

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

from leap.models.kernels.compiling import kernel
from leap.models.kernels.lanes import COUNT, SIZE, array_at, repeated, summed

HALF, FULL = 8, 16
"""Columns of a tile."""


def _place(builder: Any, address: Any, offsets: Sequence[Any], kind: Any) -> Any:
    """Emit a pointer to what lies so many float32 behind an address."""
    for offset in offsets:
        address = builder.add(address, builder.mul(offset, ir.Constant(offset.type, SIZE)))
    return builder.inttoptr(address, kind.as_pointer())


def _times(builder: Any, value: Any, factor: int) -> Any:
    return builder.mul(value, ir.Constant(value.type, factor))


def _tile(height: int, width: int) -> Any:
    """Return a function for loops that fills height × width elements: out[i, j] = start[j] + Σ_k a[i, k] b[k, j].

    It takes the address of `a`, the steps between its rows and its columns, the address of `b` and the step between its
    rows, how many k there are, the address of `start`, and that of `out` with the step between its rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, a_row, a_column, b, b_row, count, start, out, out_row = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), width)
        begin = builder.load(_place(builder, start, (), vector), align=SIZE)
        sums = [cgutils.alloca_once_value(builder, begin) for _ in range(height)]  # promoted to registers
        with cgutils.for_range(builder, count) as loop:
            right = builder.load(_place(builder, b, (builder.mul(loop.index, b_row),), vector), align=SIZE)
            column = builder.mul(loop.index, a_column)
            for i in range(height):
                left = builder.load(_place(builder, a, (_times(builder, a_row, i), column), number), align=SIZE)
                product = builder.fmul(repeated(builder, left, width), right)
                builder.store(builder.fadd(builder.load(sums[i]), product), sums[i])
        for i in range(height):
            target = _place(builder, out, (_times(builder, out_row, i),), vector)
            builder.store(builder.load(sums[i]), target, align=SIZE)
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


def _inner_tile(height: int, width: int) -> Any:
    """Return a function for loops that fills height × width elements: out[i, j] = Σ_n Σ_t a[n, i, t] b[n, j, t].

    It takes the address of `a` and the steps between its matrices and rows, the same of `b`, how many matrices there
    are, the length of rows (a multiple of 8), and the address of `out` with the step between its rows.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        a, a_next, a_row, b, b_next, b_row, count, length, out, out_row = arguments
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), COUNT)
        zero = ir.Constant(vector, [0.0] * COUNT)
        sums = [[cgutils.alloca_once_value(builder, zero) for _ in range(width)] for _ in range(height)]
        with cgutils.for_range(builder, count) as loop:
            matrices = [builder.mul(loop.index, step) for step in (a_next, b_next)]
            chunks = builder.sdiv(length, ir.Constant(length.type, COUNT))
            with cgutils.for_range(builder, chunks) as inner:
                chunk = _times(builder, inner.index, COUNT)
                left, right = (
                    [
                        builder.load(
                            _place(builder, address, (first, _times(builder, step, i), chunk), vector), align=SIZE
                        )
                        for i in range(size)
                    ]
                    for address, first, step, size in (
                        (a, matrices[0], a_row, height),
                        (b, matrices[1], b_row, width),
                    )
                )
                for i in range(height):
                    for j in range(width):
                        product = builder.fmul(left[i], right[j])
                        builder.store(builder.fadd(builder.load(sums[i][j]), product), sums[i][j])
        for i in range(height):
            for j in range(width):
                target = _place(builder, out, (_times(builder, out_row, i), ir.Constant(out_row.type, j)), number)
                builder.store(summed(builder, builder.load(sums[i][j])), target, align=SIZE)
        return context.get_dummy_value()

    def typed(
        typing_context: Any,
        a: Any,
        a_next: Any,
        a_row: Any,
        b: Any,
        b_next: Any,
        b_row: Any,
        count: Any,
        length: Any,
        out: Any,
        out_row: Any,
    ) -> Any:
        return types.void(*[types.intp] * 10), generate

    return intrinsic(typed)


_four_four, _four_one, _one_four, _one_one = (_inner_tile(*size) for size in ((4, 4), (4, 1), (1, 4), (1, 1)))


@kernel
def multiply_series(
    a: int,
    a_next: int,
    a_row: int,
    b: int,
    b_next: int,
    b_row: int,
    count: int,
    length: int,
    out: int,
    out_row: int,
    height: int,
    width: int,
) -> None:
    """Fill out[i, j] = Σ_n Σ_t a[n, i, t] b[n, j, t] for height × width elements.

    Every eighth t has a sum of its own, over n and then t; these are added by halves.

    Parameters
    ----------
    a_next, b_next, a_row, b_row : steps between matrices and between rows, in elements.
    count : number of n.
    length : of rows; a multiple of 8.
    """
    i = 0
    while i < height:
        rows, j = 4 if height - i >= 4 else 1, 0
        left = a + SIZE * i * a_row
        while j < width:
            columns = 4 if width - j >= 4 else 1
            right, target = b + SIZE * j * b_row, out + SIZE * (i * out_row + j)
            if rows == 4 and columns == 4:
                _four_four(left, a_next, a_row, right, b_next, b_row, count, length, target, out_row)
            elif rows == 4:
                _four_one(left, a_next, a_row, right, b_next, b_row, count, length, target, out_row)
            elif columns == 4:
                _one_four(left, a_next, a_row, right, b_next, b_row, count, length, target, out_row)
            else:
                _one_one(left, a_next, a_row, right, b_next, b_row, count, length, target, out_row)
            j += columns
        i += rows


def _row_tile(width: int) -> Any:
    """Return a function for loops that fills `width` elements: out[j] = own · x[row, j] + Σ_p w[p] x[ids[p], j].

    It takes the first p and the one behind the last, the addresses of `ids` (int32) and `w`, the number `own`, the
    addresses of its row and of `x`, the bytes from one row of that to the next, and the address of `out`.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        begin, end, ids, weights, own, row, x, step, out = arguments
        lanes = min(width, FULL)
        number, vector = ir.FloatType(), ir.VectorType(ir.FloatType(), lanes)
        offsets = [ir.Constant(begin.type, j) for j in range(0, width, lanes)]
        factor = repeated(builder, own, lanes)
        starts = [builder.load(_place(builder, row, (j,), vector), align=SIZE) for j in offsets]
        sums = [cgutils.alloca_once_value(builder, builder.fmul(factor, start)) for start in starts]
        with cgutils.for_range_slice(builder, begin, end, ir.Constant(begin.type, 1)) as (p, _):
            node = builder.load(_place(builder, ids, (p,), ir.IntType(32)), align=SIZE)
            source = builder.add(x, builder.mul(builder.zext(node, step.type), step))
            weight = builder.load(_place(builder, weights, (p,), number), align=SIZE)
            factor = repeated(builder, weight, lanes)
            for j, total in zip(offsets, sums, strict=True):
                value = builder.load(_place(builder, source, (j,), vector), align=SIZE)
                builder.store(builder.fadd(builder.load(total), builder.fmul(factor, value)), total)
        for j, total in zip(offsets, sums, strict=True):
            builder.store(builder.load(total), _place(builder, out, (j,), vector), align=SIZE)
        return context.get_dummy_value()

    def typed(
        typing_context: Any,
        begin: Any,
        end: Any,
        ids: Any,
        weights: Any,
        own: Any,
        row: Any,
        x: Any,
        step: Any,
        out: Any,
    ) -> Any:
        return types.void(*[types.intp] * 4, types.float32, *[types.intp] * 4), generate

    return intrinsic(typed)


_row_64, _row_32, _row_16, _row_8, _row_1 = (_row_tile(width) for width in (64, 32, 16, 8, 1))


@kernel
def sum_rows(begin: int, end: int, ids: int, weights: int, own: Any, row: int, x: int, columns: int, out: int) -> None:
    """Fill out[j] = own · row[j] + Σ_p weights[p] x[ids[p], j] for begin ≤ p < end, added in this order.

    Arrays are given by address; `ids` are int32 rows of `x`, which has `columns` as `row` and `out` have.
    """
    step, j = SIZE * columns, 0
    while j < columns:
        left, at = columns - j, SIZE * j
        if left >= 64:
            _row_64(begin, end, ids, weights, own, row + at, x + at, step, out + at)
            j += 64
        elif left >= 32:
            _row_32(begin, end, ids, weights, own, row + at, x + at, step, out + at)
            j += 32
        elif left >= 16:
            _row_16(begin, end, ids, weights, own, row + at, x + at, step, out + at)
            j += 16
        elif left >= 8:
            _row_8(begin, end, ids, weights, own, row + at, x + at, step, out + at)
            j += 8
        else:
            _row_1(begin, end, ids, weights, own, row + at, x + at, step, out + at)
            j += 1


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
