"""Compile every kernel once into numba's on-disk cache: ``python -m leap.models.warm_up``.

Without it the first command after an installation would spend about half a minute compiling. Kernels are called through
the functions that their users call, on tiny graphs with the element types that the stages use.
"""

from types import SimpleNamespace

import numpy as np
import torch
from numpy.typing import NDArray

from leap.models import dect, grouped, kernels, noise
from leap.models.adam import StackAdam
from leap.models.channels import mix_channels, project_curves
from leap.models.convolutions import sum_layers
from leap.models.generator import LEAST, dropout
from leap.models.kernels.laplacian_sparse import SPARE, STAGE
from leap.models.messages import Sums, attend, gather, sum_messages, sum_weights
from leap.models.rows import Rows
from leap.models.sequences import encode_sequences, self_attention
from leap.store import Neighborhoods

COLUMNS = 2
FEATURES = 3


def warm_up() -> None:
    """Compile all kernels, or load them where that was done before (a few seconds)."""
    # A cycle with room for one stage of the sparse eigensolver, a triangle for the dense one, and an isolated node.
    length = SPARE + 2 * STAGE
    edges = np.concatenate([_cycle(0, length), _cycle(length, 3)], axis=1)
    node_ptr = np.array([0, length, length + 3, length + 4], dtype=np.int64)
    csr = kernels.build_csr(edges, int(node_ptr[-1]))
    x = np.arange(node_ptr[-1] * FEATURES, dtype=np.float32).reshape(-1, FEATURES)
    hoods = _extract(csr)
    _transform(x, hoods)
    _train(x, hoods)
    _train_stack(x, hoods)
    _update_stack(x)
    kernels.rwpe(csr.indptr, csr.indices, COLUMNS)
    kernels.lape(csr.indptr, csr.indices, node_ptr, 2 * STAGE, dense_limit=3)
    kernels.heat_diagonals(csr.indptr, csr.indices, np.ones(COLUMNS))
    kernels.potential_statistics(csr.indptr, csr.indices)
    kernels.count_cycles(csr.indptr, csr.indices)
    kernels.curvature_profiles(csr.indptr, csr.indices, "augmented")
    kernels.curvature_profiles(csr.indptr, csr.indices, "ollivier")


def _cycle(first: int, length: int) -> NDArray[np.int64]:
    nodes = np.arange(length, dtype=np.int64)
    return first + np.stack([nodes, (nodes + 1) % length])


def _extract(csr: kernels.Csr) -> kernels.KhopArrays:
    for hops in (1, 2):
        for cap in (0, 2):
            kernels.count_khop(csr.indptr, csr.indices, hops, cap=cap)
            found = kernels.khop_arrays(csr.indptr, csr.indices, hops, cap=cap)
    return found


def _transform(x: NDArray[np.float32], hoods: kernels.KhopArrays) -> None:
    mean, scale = kernels.mean_and_scale(x, hoods.node_ptr, hoods.nodes)
    directions = kernels.random_directions(FEATURES, 2)
    even = kernels.threshold_grid(4, 1.1)
    for thresholds in (even, even**3):  # uneven ones have kernels of their own
        kernels.dect_forward(x, *hoods, mean, scale, directions, thresholds, 128.0)
        kernels.ect_forward(x, *hoods, mean, scale, directions, thresholds)


def _train(x: NDArray[np.float32], hoods: kernels.KhopArrays) -> None:
    neighborhoods = Neighborhoods(*hoods, hops=2)
    directions = torch.from_numpy(kernels.random_directions(FEATURES, 2)).float().requires_grad_()
    features, even = torch.from_numpy(x).requires_grad_(), torch.from_numpy(kernels.threshold_grid(4, 1.1)).float()
    for thresholds in (even, even**3):
        dect(features, neighborhoods, directions, thresholds.requires_grad_(), 128.0).sum().backward()
    edges = torch.from_numpy(_cycle(0, len(x)))
    gather(features, edges, sum_weights(edges, len(x))).sum().backward()
    Sums(edges, sum_weights(edges, len(x)))(features).sum().backward()
    attend(features, features[:, :2], edges).sum().backward()
    sum_messages(features, edges, features).sum().backward()
    dropout(torch.ones(LEAST), 0.5)


def _train_stack(x: NDArray[np.float32], hoods: kernels.KhopArrays) -> None:
    features, rows = torch.from_numpy(x).requires_grad_(), Rows.of([len(x)])
    weight, keys = torch.ones(1, FEATURES, FEATURES, requires_grad=True), noise.site(noise.keys(0, 0, 0), 0)
    bias, ptr = torch.ones(1, FEATURES, requires_grad=True), np.array([0, 1, len(x)])
    hidden = grouped.linear(features, weight, None, rows, drop=0.5, keys=keys)
    normed = grouped.layer_norm(grouped.add_bias(hidden, bias, rows), bias, bias, rows, 1e-5)
    grouped.pool(self_attention(normed, ptr, drop=0.5, keys=keys, rows=rows), ptr).sum().backward()
    noise.signs(noise.keys(0, 0, 0), rows.ptr, COLUMNS, features)
    directions = torch.from_numpy(kernels.random_directions(FEATURES, FEATURES)).float()[None].requires_grad_()
    thresholds = torch.from_numpy(kernels.threshold_grid(4, 1.1)).float()
    curves = dect(features, Neighborhoods(*hoods, hops=2), directions, thresholds, 128.0, rows=rows)
    mix_channels(curves, weight, bias, rows).sum().backward()
    convolutions, square = [weight[..., None], bias] * 3, torch.ones(1, 4, 4, requires_grad=True)
    project_curves(curves.detach(), convolutions, [square, square[:, 0]] * 2, rows).sum().backward()
    edges = torch.from_numpy(_cycle(0, len(x)))
    wide = torch.ones(1, 3 * FEATURES, FEATURES, requires_grad=True)
    maps = [wide, wide[:, :, 0], *[weight, bias] * 3, *[bias] * 4]
    encode_sequences(features, ptr, rows, maps, 1e-5, 0.5, noise.sites(noise.keys(0, 0, 0), 0, 4)).sum().backward()
    sum_layers(features, edges, sum_weights(edges, len(x)), [(weight, bias)], rows).sum().backward()


def _update_stack(x: NDArray[np.float32]) -> None:
    adam = StackAdam(SimpleNamespace(flat=torch.from_numpy(x).clone()))
    adam.add([None] * len(x))
    adam.step(torch.from_numpy(x), np.ones(len(x)))


if __name__ == "__main__":
    warm_up()
