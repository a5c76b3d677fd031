"""`sum_layers`: all layers of gcn or gin for a stack as one operation.

On small graphs torch takes longer for a node of its graph than the layer takes itself.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from leap.models.addresses import address, check_arrays, check_compiled, dense, new_gradient, place, refuse_rows
from leap.models.fused import refuse_second_derivatives
from leap.models.kernels.convolution_loops import WRONG_EDGES, layers_backward, layers_forward
from leap.models.messages import Weights, check_sums
from leap.models.rows import Rows
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import check_ids


def sum_layers(
    x: Tensor, edge_index: Tensor, weights: Weights, maps: Sequence[tuple[Tensor, Tensor]], rows: Rows
) -> Tensor:
    """Apply layer after layer: `messages.gather`, then the map of each row's network, with a ReLU but after the last.

    Parameters
    ----------
    x : (N, K₀) float32 on the CPU, as all other numbers.
    maps : weight (S, K₁, K₀) and bias (S, K₁) of the first layer, (S, K₂, K₁) and (S, K₂) of the second, and so on.

    Raises
    ------
    InvalidInputError
        If shapes, rows, slots or edges do not fit.
    """
    check_sums(x, edge_index, weights)
    check_arrays(rows)
    if not maps:
        raise InvalidInputError("sum_layers needs at least one layer. Got none.")
    networks, widths = maps[0][0].shape[0], [*x.shape[1:], *(weight.shape[1] for weight, _ in maps)]
    for (inside, outside), (weight, bias) in zip(pairwise(widths), maps, strict=True):
        if weight.shape != (networks, outside, inside) or bias.shape != (networks, outside):
            raise InvalidInputError(
                f"a layer of {networks} networks must map {inside} columns with its bias. Got a weight of shape "
                f"{tuple(weight.shape)} and a bias of shape {tuple(bias.shape)}."
            )
    edges, own = (part.to(x.dtype).contiguous() for part in weights)
    parameters = [parameter for pair in maps for parameter in pair]
    check_compiled(x, edges, own, *parameters)
    result: Tensor = _Layers.apply(x, edge_index, edges, own, rows, *parameters)
    return result


class _Layers(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, x: Tensor, edge_index: Tensor, edges: Tensor, own: Tensor, rows: Rows, *parameters: Tensor
    ) -> Tensor:
        x, parameters = x.contiguous(), tuple(dense(parameter) for parameter in parameters)
        count, inside = x.shape
        networks, outside, _ = parameters[-2].shape
        between = [weight.shape[1] for weight in parameters[:-2:2]]
        # Sums of all layers and results of all but the last, one after the other.
        room = x.new_empty(count * (inside + 2 * sum(between)))
        out = x.new_empty(count, outside)
        layers = _table(count, [inside, *between, outside], room, out, parameters)
        known = (layers, count, networks, edge_index.numpy(), edges.data_ptr(), own.data_ptr(), rows.ptr, rows.slots)
        wrong = layers_forward(x.data_ptr(), *known)
        if wrong:
            _refuse(wrong, edge_index, rows, count, networks)
        ctx.save_for_backward(x, edge_index, edges, own, *parameters)
        ctx.known = (rows, layers, room)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        x, edge_index, edges, own, *parameters = ctx.saved_tensors
        rows, layers, _ = ctx.known
        upstream, networks = gradients[0].contiguous(), len(parameters[0])
        on_x = torch.empty_like(x) if ctx.needs_input_grad[0] else None
        found = [new_gradient(upstream, rows, *parameter.shape) for parameter in parameters]
        places = np.array([part.data_ptr() for part in found]).reshape(-1, 2)
        known = (layers, len(x), networks, edge_index.numpy(), edges.data_ptr(), own.data_ptr(), rows.ptr, rows.slots)
        wrong = layers_backward(*known, upstream.data_ptr(), address(on_x), places)
        if wrong:
            _refuse(wrong, edge_index, rows, len(x), networks)
        all_found: tuple[Tensor | None, ...] = (on_x, *found)
        if torch.is_grad_enabled():
            all_found = refuse_second_derivatives("sum_layers", all_found, (gradients[0], x, *parameters))
        return all_found[0], None, None, None, None, *all_found[1:]


def _table(count: int, widths: list[int], room: Tensor, out: Tensor, parameters: Sequence[Tensor]) -> NDArray[np.int64]:
    """Return what `layers_forward` wants to know of each layer."""
    at, size, table = room.data_ptr(), count * room.element_size(), []
    for number, (inside, outside) in enumerate(pairwise(widths)):
        sums, result = at, at + size * inside
        at = result + size * outside
        is_last = number + 2 == len(widths)
        weight, bias = parameters[2 * number : 2 * number + 2]
        table.append((inside, outside, sums, out.data_ptr() if is_last else result, *place(weight), *place(bias)))
    return np.array(table)


def _refuse(wrong: int, edge_index: Tensor, rows: Rows, count: int, networks: int) -> None:
    if wrong == WRONG_EDGES:
        check_ids("edge_index", edge_index.numpy(), count)
    refuse_rows(rows, count, networks)
