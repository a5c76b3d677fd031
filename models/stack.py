"""`Stack`: several networks of one architecture as one module, so that training them costs few calls of torch."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from leap.models.encodings import NodeData
from leap.models.generator import borrowed_generator
from leap.models.network import Network
from leap.models.network_config import DatasetFacts, NetworkConfig, can_stack
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_node_task

LANES = 64  # a network's parameters are padded to a multiple of this: none is ever in the remainder of a vector loop


class Stack(nn.Module):
    """Networks whose parameters are (S, …), the rows of one tensor, over the disjoint union of their batches.

    What one network computes is the same to the last bit whatever the others are, on the CPU in float32. Where an
    architecture cannot be stacked (`can_stack`), there is room for one network, whose parameters stay as they are.

    Parameters
    ----------
    config, facts : of all networks.
    device : of the parameters.

    Attributes
    ----------
    flat : (S, P) parameters, network by network; a multiple of 64 each, the rest is zeros.
    network : the module that computes; what it learns are views into `flat`.

    Examples
    --------
    >>> letters = DatasetFacts(features=2, outputs=15)
    >>> config = NetworkConfig(backbone="gcn", encoding="none")
    >>> stack = Stack(config, letters)
    >>> stack.add([Network(config, letters).state_dict() for _ in range(3)])
    >>> len(stack), tuple(stack.flat.shape)
    (3, (3, 3776))
    """

    def __init__(self, config: NetworkConfig, facts: DatasetFacts, device: torch.device | str = "cpu") -> None:
        super().__init__()
        self.config, self.facts = config, facts
        self.is_grouped = can_stack(config, is_node_task=is_node_task(facts.task))
        with borrowed_generator():
            self.network = Network(config, facts).to(device)
        learned = {name: p for name, p in self.network.named_parameters() if p.requires_grad}
        self._shapes = {name: parameter.shape for name, parameter in learned.items()}
        self._ends = np.cumsum([0, *(shape.numel() for shape in self._shapes.values())]).tolist()
        width = -(-self._ends[-1] // LANES) * LANES
        self.flat = torch.zeros(0, width, device=device)
        self._rest = self.flat[:, self._ends[-1] :]
        self._leaves: list[Tensor] = []

    def __len__(self) -> int:
        return len(self.flat)

    def add(self, states: Sequence[dict[str, Tensor]]) -> None:
        """Append networks, given as the state dicts of each."""
        if not self.is_grouped and len(self) + len(states) > 1:
            raise InvalidInputError(
                f"networks with {self.config.backbone} and {self.config.encoding} are trained alone."
            )
        rows = self.flat.new_zeros(len(states), self.flat.shape[1])
        for row, state in zip(rows, states, strict=True):
            for (name, _), (start, end) in zip(self._shapes.items(), pairwise(self._ends), strict=True):
                row[start:end] = state[name].reshape(-1)
            if not self.is_grouped:
                self.network.load_state_dict(state)  # with what is not learned
        self._renew(torch.cat([self.flat, rows]))

    def keep(self, slots: Sequence[int]) -> None:
        """Forget all networks but these, which are numbered in this order from now on."""
        self._renew(self.flat[list(slots)])

    def state(self, slot: int) -> dict[str, Tensor]:
        """Return a copy of a network's parameters and buffers, under the names of its own state dict."""
        own = {
            name: tensor.detach().clone()
            for name, tensor in self.network.state_dict().items()
            if name not in self._shapes
        }
        row = self.flat[slot].clone()  # one for all: a checkpoint then has one record instead of dozens
        for (name, shape), (start, end) in zip(self._shapes.items(), pairwise(self._ends), strict=True):
            own[name] = row[start:end].view(shape)
        return own

    def gradients(self) -> Tensor:
        """Return the gradients of the last backward pass like `flat`, and forget them."""
        found = [torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in self._leaves]
        for leaf in self._leaves:
            leaf.grad = None
        return found[0] if self.is_grouped else _side_by_side(found, self._rest)

    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        """Return the scores of all networks' graphs (or nodes); `nodes.graphs.rows` says which rows are whose."""
        scores: Tensor = self.network(x, nodes)
        return scores

    def _renew(self, flat: Tensor) -> None:
        """Let what is learned be views into another tensor."""
        self.flat, self._rest = flat, torch.zeros_like(flat[:, self._ends[-1] :])
        if self.is_grouped:
            leaf = flat.detach().requires_grad_()
            shapes = [(len(flat), *shape) for shape in self._shapes.values()]
            with torch.enable_grad():
                learned = _Views.apply(leaf, self._rest, self._ends, shapes)
            self._leaves = [leaf]
        else:
            row = flat if len(flat) else flat.new_zeros(1, flat.shape[1])
            learned = [nn.Parameter(view) for view in _views(row, self._ends, list(self._shapes.values()))]
            self._leaves = learned
        for name, value in zip(self._shapes, learned, strict=True):
            path, _, attribute = name.rpartition(".")
            module = self.network.get_submodule(path)
            delattr(module, attribute)  # a module takes nothing but a parameter for a parameter
            setattr(module, attribute, value)


class _Views(torch.autograd.Function):
    """Parameters as views into one tensor: torch takes longer for a leaf of its graph than for most of what we do.

    Nothing is saved for the way back, so that one call serves all steps.
    """

    @staticmethod
    def forward(
        ctx: Any, flat: Tensor, rest: Tensor, ends: Sequence[int], shapes: Sequence[tuple[int, ...]]
    ) -> tuple[Tensor, ...]:
        ctx.rest = rest
        return _views(flat, ends, shapes)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        return _side_by_side(gradients, ctx.rest), None, None, None


def _views(flat: Tensor, ends: Sequence[int], shapes: Sequence[tuple[int, ...]]) -> tuple[Tensor, ...]:
    """Return the columns between two ends as a tensor of some shape, and so on; steps in place are unknown to torch."""
    return tuple(flat[:, a:b].view(shape).data for (a, b), shape in zip(pairwise(ends), shapes, strict=True))


def _side_by_side(parts: Sequence[Tensor], rest: Tensor) -> Tensor:
    """Return what `_views` has cut as one tensor again, with the rest behind it."""
    size = len(rest)
    return torch.cat([*(part.reshape(size, -1) for part in parts), rest], dim=1)
