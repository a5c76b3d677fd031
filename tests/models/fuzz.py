"""Random calls of every kernel with numbers and indices that nobody should give: ``python -m tests.models.fuzz``.

Made in a process of its own, since the failure looked for is the end of Python. Each call must return or raise
InvalidInputError; anything else is printed and ends the process with 1.
"""

import argparse
import sys
import traceback
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from leap.models import LEAP, dect, grouped, noise
from leap.models.adam import StackAdam
from leap.models.channels import mix_channels, project_curves
from leap.models.convolutions import sum_layers
from leap.models.kernels.adjacency import build_csr
from leap.models.kernels.balls import count_khop, khop_arrays
from leap.models.kernels.border import index_arrays
from leap.models.kernels.compiling import read_only
from leap.models.kernels.curvature import curvature_profiles
from leap.models.kernels.cycles import count_cycles
from leap.models.kernels.diagonals import heat_diagonals, pagerank_diagonals
from leap.models.kernels.normalization import mean_and_scale, normalize, spread_means, spread_scales
from leap.models.kernels.potentials import potential_statistics
from leap.models.kernels.transforms import dect_forward, ect_forward, kernels_for
from leap.models.kernels.walks import rwpe
from leap.models.messages import Sums, Weights, attend, gather, sum_messages
from leap.models.rows import Rows
from leap.models.sequences import encode_sequences, self_attention
from leap.models.transform import Statistics, edge_weights
from leap.pipeline import khop
from leap.store import Neighborhoods
from leap.store.errors import InvalidInputError

NUMBERS = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.5, 1e-38, -1e-38, 1e-45, 1e38, -1e38, 3.4e38, np.inf, -np.inf, np.nan, 7.0, 1e6, -1e-6]
)
SCALES = np.array([1e-300, 1e-38, 1e-3, 0.5, 8.0, 128.0, 1e5, 1e12, 1e38, 1e300])
WRONG_SCALES = np.array([0.0, -1.0, np.nan, np.inf, -np.inf])
WRONG_IDS = np.array([-1, -(2**31), -(2**63), 2**31 - 1, 2**31, 2**32, 2**32 + 1, 2**63 - 1, 4, 99])


class Fuzz:
    """Draws arguments; every method with a name of `KINDS` makes one call."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.hoods = [self._graph(int(self.draw.integers(0, 9))) for _ in range(60)]
        self.large = khop(self.draw.integers(0, 400, (2, 1500)), 400, 2)
        self.encoders = [LEAP(2, 4), LEAP(2, 4, thresholds=20, directions=3, learn_thresholds=True, scale=1e-3)]

    def _graph(self, nodes: int) -> Neighborhoods:
        entries = self.draw.integers(0, max(nodes, 1), (2, nodes * int(self.one([1, 2, 8]))))
        return khop(entries, nodes, int(self.draw.integers(1, 3)))

    def one(self, values: Any) -> Any:
        return values[int(self.draw.integers(len(values)))]

    def numbers(self, *shape: int) -> np.ndarray:
        """Mostly ordinary numbers, with a few or many of the others among them."""
        values = self.draw.standard_normal(shape)
        if values.size and self.draw.random() < 0.8:
            places = self.draw.random(shape) < self.one([0.02, 0.2, 1.0])
            values[places] = self.draw.choice(NUMBERS, int(places.sum()))
        return values

    def tensor(self, *shape: int) -> torch.Tensor:
        with np.errstate(over="ignore"):
            return torch.from_numpy(self.numbers(*shape).astype(np.float32))

    def grid(self) -> np.ndarray:
        """Thresholds that ascend and are finite, as the border of the kernels has it."""
        count, width = self.one([1, 2, 3, 16, 17, 40]), self.one([1.1, 1e-30, 1e-5, 1e5, 1e38, 1e300])
        if self.draw.random() < 0.6:
            return np.linspace(-width, width, count)
        return np.unique(self.draw.standard_normal(count) * width)

    def hood(self) -> Neighborhoods:
        return self.large if self.draw.random() < 0.0005 else self.one(self.hoods)

    def kernel(self) -> None:
        """The compiled loops themselves, forward and backward, beyond a border that let the indices pass."""
        hoods = self.hood()
        nodes, count, grid, s = len(hoods), int(self.one([1, 2, 5])), self.grid(), float(self.one(SCALES))
        index = index_arrays(hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, nodes)
        weights = read_only(self.numbers(self.one([1, len(index[3])])), np.float64)
        known = (self.numbers(nodes, count), self.numbers(nodes, count), self.numbers(nodes), grid, s, weights)
        known = (*known, bool(self.draw.integers(2)))
        kernels = kernels_for(grid, s)
        out = np.empty((nodes, count, len(grid)), np.float32)
        kernels.forward(0, nodes, *index, *known, out)
        with np.errstate(over="ignore"):
            upstream = self.numbers(*out.shape).astype(np.float32)
        wanted = np.zeros(len(grid) * int(self.draw.integers(2)))
        own = (np.zeros((nodes, count)), np.zeros((nodes, count)), np.zeros(nodes), wanted)
        kernels.backward(0, count, *index, *known, upstream, *own)

    def normalization(self) -> None:
        hoods = self.hood()
        nodes, dim = len(hoods), int(self.one([0, 1, 3]))
        x, heights = self.numbers(nodes, dim), self.numbers(nodes, 2)
        offsets, scale, farthest = np.empty((nodes, 2)), np.empty(nodes), np.zeros(nodes, np.int64)
        index = index_arrays(hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, nodes)
        normalize(x, index[0], index[1], heights, offsets, scale, farthest)
        spread_means(index[0], index[1], self.numbers(nodes, 2), np.zeros((nodes, 2)))
        spread_scales(x, index[0], index[1], scale, farthest, self.numbers(nodes), np.zeros((nodes, dim)))

    def cached(self, hoods: Neighborhoods | None = None) -> None:
        hoods = self.hood() if hoods is None else hoods
        nodes, dim, count = np.size(hoods.node_ptr) - 1, int(self.one([0, 1, 3])), int(self.one([0, 1, 4]))
        arrays = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges)
        grid = self.grid() if self.draw.random() < 0.8 else self.numbers(int(self.draw.integers(4)))
        operands = (self.numbers(max(nodes, 0), dim), *arrays, self.numbers(max(nodes, 0), dim))
        operands = (*operands, self.numbers(max(nodes, 0)), self.numbers(dim, count), grid)
        if self.draw.random() < 0.5:
            ect_forward(*operands, self.one(["points", "edges"]))
        else:
            scale = float(self.one(SCALES) if self.draw.random() < 0.9 else self.one(WRONG_SCALES))
            dect_forward(*operands, scale, float(self.one([1.0, 2.0, 0.0, -1.0, 1e38, 1e39, np.nan, np.inf])))

    def transform(self, hoods: Neighborhoods | None = None) -> None:
        hoods = self.hood() if hoods is None else hoods
        nodes, dim, dtype = max(np.size(hoods.node_ptr) - 1, 0), int(self.one([0, 1, 3])), self.one([1, 1, 1, 0])
        x, directions = self.tensor(nodes, dim), self.tensor(dim, int(self.one([0, 1, 4])))
        thresholds = self.tensor(int(self.one([0, 1, 2, 7])))
        if self.draw.random() < 0.7:
            with np.errstate(over="ignore"):
                thresholds = torch.from_numpy(self.grid().astype(np.float32))
        inputs = [part.to(torch.float32 if dtype else torch.float64) for part in (x, directions, thresholds)]
        for part in inputs:
            part.requires_grad_(bool(self.draw.integers(2)))
        stats = Statistics(self.tensor(nodes, dim), self.tensor(nodes)) if self.draw.random() < 0.5 else None
        scale = float(self.one(SCALES) if self.draw.random() < 0.9 else self.one(WRONG_SCALES))
        weight = float(self.one([1.0, 2.0, 0.0, -1.0, 1e38, 1e39, np.nan]))
        if self.draw.random() < 0.3:
            edges = np.asarray(hoods.edges)
            count = edges.shape[-1] if edges.ndim else 0
            weight = self.tensor(max(0, count + int(self.one([0, 0, 0, -1, 1]) if edges.size else 0)))
            weight.requires_grad_(self.draw.random() < 0.2)
        out = dect(inputs[0], hoods, *inputs[1:], scale, stats=stats, edge_weight=weight)
        if out.requires_grad:
            out.backward(self.tensor(*out.shape).to(out.dtype))

    def weights(self) -> None:
        """Weights of the edges of neighbourhoods, looked up in lists that may be of another graph."""
        hoods = self.spoil(self.hood()) if self.draw.random() < 0.3 else self.hood()
        edges = np.asarray(self.hood().edges if self.draw.random() < 0.3 else hoods.edges)
        if edges.ndim == 2 and edges.dtype.kind in "iu" and edges.dtype.isnative:
            listed = edges.astype(np.int64)
            if listed.size and self.draw.random() < 0.2:
                listed.reshape(-1)[0] = self.one(WRONG_IDS)
            edge_weights(hoods, torch.from_numpy(listed), self.tensor(listed.shape[1] + int(self.one([0, 0, 0, 1]))))

    def encoder(self) -> None:
        encoder, hoods = self.one(self.encoders), replace(self.hood(), hops=1)
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.copy_(self.tensor(*parameter.shape))
        x = self.tensor(len(hoods), 2).requires_grad_()
        encoder(x, hoods).sum().backward()

    def statistics(self) -> None:
        hoods, dim = self.hood(), int(self.one([0, 1, 9]))
        x = self.numbers(len(hoods), dim)
        with np.errstate(over="ignore"):
            mean_and_scale(x if self.draw.integers(2) else x.astype(np.float32), *self.spoilt_rows(hoods))

    def spoilt_rows(self, hoods: Neighborhoods) -> tuple[np.ndarray, np.ndarray]:
        if self.draw.random() < 0.5:
            return hoods.node_ptr, hoods.nodes
        spoilt = self.spoil(hoods)
        return np.asarray(spoilt.node_ptr), np.asarray(spoilt.nodes)

    def adjacency(self) -> tuple[np.ndarray, np.ndarray]:
        """Rows of a graph: symmetric, of one direction only, or no graph at all."""
        nodes = int(self.draw.integers(0, 9))
        if self.draw.random() < 0.5:
            csr = build_csr(self.draw.integers(0, max(nodes, 1), (2, 2 * nodes)), nodes)
            return csr.indptr, csr.indices
        counts = self.draw.integers(0, 4, nodes)
        indptr = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        indices = self.draw.integers(0, max(nodes, 1), int(indptr[-1])).astype(np.int32)
        if self.draw.random() < 0.5:
            return indptr, indices
        target = indptr if self.draw.integers(2) else indices
        if target.size:
            target[int(self.draw.integers(target.size))] = self.one([-1, -(2**31), 2**31 - 1, 9, 5])
        return indptr, indices

    def neighborhoods(self) -> None:
        hops, cap = int(self.one([-1, 0, 1, 2, 2**40])), int(self.one([-1, 0, 1, 3, 2**40]))
        sources = self.one([None, (0, 3), np.array([0, 1]), np.array([-1]), np.array([2**40])])
        names = self.one([None, None, np.arange(3), np.arange(8)])
        function = self.one([khop_arrays, count_khop])
        function(*self.adjacency(), hops, sources, cap, int(self.one([0, -1, 2**70])), global_ids=names)

    def edge_list(self) -> None:
        entries = self.draw.integers(-1, 5, (int(self.one([2, 2, 2, 3])), int(self.draw.integers(5))))
        khop(entries, int(self.one([0, 4, 5, -1])), int(self.one([1, 2])))

    def walks(self) -> None:
        rwpe(*self.adjacency(), int(self.one([-1, 0, 1, 2, 5])), int(self.one([0, 0, 1, -1, 2**40])))

    def structure(self) -> None:
        rates = self.one([[0.25, 0.5], [], [np.nan], [2.0], [-1]])
        self.one([heat_diagonals, pagerank_diagonals])(*self.adjacency(), rates)
        potential_statistics(*self.adjacency())
        count_cycles(*self.adjacency(), int(self.one([2, 3, 5, 8, 9])), budget=int(self.one([-1, 10, 10**5])))
        curvature_profiles(*self.adjacency(), self.one(["augmented", "ollivier", ""]), int(self.one([0, 1, -1, 2**40])))

    def messages(self) -> None:
        nodes, edges = int(self.draw.integers(0, 5)), int(self.draw.integers(0, 6))
        x = self.tensor(nodes, 3).requires_grad_()
        ends = torch.from_numpy(self.draw.integers(0, max(nodes, 1) + self.draw.integers(2), (2, edges)))
        kind = self.draw.random()
        if kind < 0.3:
            out = sum_messages(
                x, ends, self.tensor(max(edges + int(self.one([0, 0, 0, -1, 1])), 0), 3).requires_grad_()
            )
        elif kind < 0.6:
            given = edges + int(self.one([0, 0, 0, -1, 1]))
            weights = Weights(self.tensor(max(given, 0)), self.tensor(nodes))
            out = Sums(ends, weights)(x) if self.draw.random() < 0.5 else gather(x, ends, weights)
        else:
            out = attend(x, self.tensor(nodes, int(self.one([2, 2, 2, 1]))), ends)
        out.backward(self.tensor(*out.shape))

    def stack(self) -> None:
        """Operations on the rows of several networks; pointers, slots and keys may be wrong."""
        counts = self.draw.integers(0, 12, int(self.draw.integers(0, 5)))
        networks, count = len(counts) + int(self.draw.integers(3)), int(counts.sum())
        slots = self.draw.permutation(networks)[: len(counts)]
        rows, keys = Rows.of(counts, slots), noise.keys(np.arange(len(counts)), 0, 0)
        cuts = np.concatenate([*(np.sort(self.draw.integers(a, b + 1, 3)) for a, b in pairwise(rows.ptr)), rows.ptr])
        ptr = np.sort(cuts)
        if self.draw.random() < 0.3:
            wrong = self.one([rows.ptr, rows.slots, ptr])
            if len(wrong):
                wrong[int(self.draw.integers(len(wrong)))] = self.one([*WRONG_IDS, 0, 1])
        if self.draw.random() < 0.1:
            rows = replace(
                rows, **self.one([{"ptr": rows.ptr[:-1]}, {"slots": rows.slots[1:]}, {"slots": slots * 1.0}])
            )
        keys = keys if self.draw.random() < 0.9 else self.one([None, keys[1:], keys.astype(np.int64)])
        inside, outside = int(self.one([0, 1, 8, 12, 16, 33])), int(self.one([0, 1, 7, 8, 15, 16, 64]))
        drop = float(self.one([0.0, 0.1, 0.5, 1.0 - 1e-9, 1.0, -0.5, np.nan]))
        x = self.tensor(count, inside).requires_grad_()
        kinds = ["linear", "add_bias", "layer_norm", "pool", "self_attention", "mix_channels", "adam", "at once"]
        kind = self.one(kinds)
        if kind == "linear":
            weight = self.tensor(networks, outside + int(self.one([0, 0, 0, 1])), inside).requires_grad_()
            bias = self.one([None, self.tensor(networks, outside).requires_grad_()])
            out = grouped.linear(x, weight, bias, rows, relu=bool(self.draw.integers(2)), drop=drop, keys=keys)
        elif kind == "self_attention":
            out = self_attention(self.tensor(count, 3 * inside).requires_grad_(), ptr, drop=drop, keys=keys, rows=rows)
        elif kind == "mix_channels":
            weight, bias = (self.tensor(networks, *shape).requires_grad_() for shape in ((outside, inside), (outside,)))
            series = self.tensor(count, inside, int(self.one([0, 1, 8, 13, 16]))).requires_grad_()
            out = mix_channels(series, weight, bias, rows, relu=bool(self.draw.integers(2)))
        elif kind == "at once":
            out = self.at_once(x, rows, ptr, networks, outside, drop)
        elif kind == "adam":
            adam = StackAdam(SimpleNamespace(flat=self.tensor(networks, inside)))
            adam.add([None] * (networks + int(self.one([0, 0, 0, 1]))))
            return adam.step(self.tensor(networks, inside), self.numbers(networks))
        elif kind == "pool":
            out = grouped.pool(x, ptr)
        else:
            if self.draw.random() < 0.01:  # wide enough for memory of its own, which is gone once it is freed
                x, inside = self.tensor(count, 70_001).requires_grad_(), 70_001
            weight, bias = (self.tensor(networks, inside).requires_grad_() for _ in range(2))
            residual = self.one([None, self.tensor(count, inside).requires_grad_()])
            norm = grouped.layer_norm(x, weight, bias, rows, float(self.one([1e-5, 0.0, np.nan])), residual)
            out = norm if kind == "layer_norm" else grouped.add_bias(x, bias, rows)
        out.backward(self.tensor(*out.shape))

    def at_once(
        self, x: torch.Tensor, rows: Rows, ptr: np.ndarray, networks: int, outside: int, drop: float
    ) -> torch.Tensor:
        """Parts of a network that are one operation, which read what they are given by address."""
        count, inside = x.shape
        kind, given = self.one(["curves", "encoder", "layers"]), inside + int(self.one([0, 0, 0, 1]))
        steps, last = int(self.one([0, 1, 8, 13, 16])), (outside, inside)
        if kind == "curves":
            shapes = [(8, given, 1), (8,), (outside, 8, 1), (outside,), (given, outside, 1), (given,)]
            shapes += [(inside, steps), (inside,), last, (outside,)]
        elif kind == "encoder":
            shapes = [(3 * inside, inside), (3 * inside,), (inside, given), (inside,), last, (outside,)]
            shapes += [(inside, outside), (inside,), *[(inside,)] * 4]
        else:
            shapes = [(8, given), (8,), (outside, 8), (outside,)]
        size = (count, inside, steps) if kind == "curves" else (count, inside)
        tensors = [self.tensor(*size), *(self.tensor(networks, *shape) for shape in shapes)]
        if self.draw.random() < 0.1:
            place = int(self.draw.integers(len(tensors)))
            tensors[place] = self.one([torch.Tensor.double, torch.Tensor.half, torch.Tensor.bool])(tensors[place])
        x, *parameters = (each.requires_grad_() if each.is_floating_point() else each for each in tensors)
        if kind == "curves":
            return project_curves(x, parameters[:6], parameters[6:], rows)
        if kind == "encoder":
            keys = self.one([noise.sites(None, 0, 4), noise.sites(noise.keys(np.arange(len(rows)), 0, 0), 0, 4)])
            return encode_sequences(x, ptr, rows, parameters, 1e-5, drop, keys)
        ends = self.draw.integers(0, max(count, 1) + int(self.one([0, 0, 0, 1])), (2, int(self.draw.integers(9))))
        weights = Weights(self.tensor(ends.shape[1]), self.tensor(count))
        return sum_layers(x, torch.from_numpy(ends), weights, [tuple(parameters[:2]), tuple(parameters[2:])], rows)

    def malformed(self) -> None:
        hoods = self.spoil(self.one(self.hoods))
        for _ in range(int(self.draw.integers(3))):
            hoods = self.spoil(hoods)
        self.transform(hoods) if self.draw.random() < 0.6 else self.cached(hoods)

    def spoil(self, hoods: Neighborhoods) -> Neighborhoods:
        """Break one of the four arrays: a value, the length, the shape, the type, the memory layout."""
        name = self.one(["node_ptr", "nodes", "edge_ptr", "edges"])
        array = np.array(getattr(hoods, name))
        how = int(self.draw.integers(9))
        if how <= 2 and array.size and array.dtype.kind in "iu":
            array = array.astype(np.int64)
            array.reshape(-1)[int(self.draw.integers(array.size))] = self.one(WRONG_IDS)
        elif how == 3:
            array = array[..., : max(array.shape[-1] - 1, 0)] if array.ndim else array
        elif how == 4:
            array = np.concatenate([array, array], axis=-1) if array.ndim else array
        elif how == 5:
            array = self.one([array.T, array[None], array.reshape(-1), np.array(3), np.zeros(0, array.dtype)])
        elif how == 6:
            with np.errstate(invalid="ignore"):
                array = array.astype(self.one(["f4", "u1", "u8", ">i8", ">i4", "i2", "?", "c8", "O"]))
        elif how == 7:
            array = array[..., ::-1] if array.ndim else array
        else:
            array = array.tolist()
        return replace(hoods, **{name: array})


KINDS = {
    "kernel": 0.45,
    "stack": 0.12,
    "normalization": 0.1,
    "cached": 0.08,
    "transform": 0.06,
    "encoder": 0.01,
    "statistics": 0.05,
    "neighborhoods": 0.04,
    "edge_list": 0.01,
    "walks": 0.03,
    "structure": 0.03,
    "messages": 0.015,
    "weights": 0.005,
}


def run(calls: int, malformed: int, seed: int) -> None:
    """Make the calls; print how many were refused."""
    np.seterr(all="ignore")
    torch.set_num_threads(1)
    fuzz = Fuzz(seed)
    names = fuzz.draw.choice(list(KINDS), calls, p=list(KINDS.values())).tolist() + ["malformed"] * malformed
    refused = 0
    for number, name in enumerate(names):
        refused += not _returns(getattr(fuzz, name), f"call {number} ({name}), seed {seed}")
    print(f"{len(names):,} calls, {refused:,} refused, seed {seed}")


def _returns(call: Callable[[], None], what: str) -> bool:
    try:
        call()
    except InvalidInputError:
        return False
    except Exception:
        traceback.print_exc()
        sys.exit(f"{what} raised something else than InvalidInputError")
    return True


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    for option, default in (("--calls", 1_000_000), ("--malformed", 10_000), ("--seed", 0)):
        parser.add_argument(option, type=int, default=default)
    run(**vars(parser.parse_args()))
