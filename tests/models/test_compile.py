"""`torch.compile` of a model with LEAP inside gives what the model gives."""

import shutil

import pytest
import torch
from torch import Tensor, nn

from leap.models import LEAP
from leap.pipeline import khop
from leap.store import Neighborhoods

HAS_COMPILER = any(shutil.which(name) for name in ("g++", "clang++", "c++"))
BACKENDS = [
    "eager",
    pytest.param(
        "inductor",
        marks=[
            pytest.mark.slow,
            pytest.mark.skipif(not HAS_COMPILER, reason="inductor needs a C++ compiler"),
        ],
    ),
]


class Model(nn.Module):
    def __init__(self, hops: tuple[int, ...]) -> None:
        super().__init__()
        self.before = nn.Linear(3, 3)
        self.encoder = LEAP(3, 4, hops=hops, scale=8.0, learn_thresholds=True)
        self.after = nn.Linear(7, 2)

    def forward(self, x: Tensor, hoods: list[Neighborhoods]) -> Tensor:
        hidden = self.before(x).tanh()
        return self.after(torch.cat([hidden, self.encoder(hidden, hoods)], dim=1)).relu()


def results(model: nn.Module, x: Tensor, hoods: list[Neighborhoods]) -> list[Tensor]:
    """Return the output and all gradients."""
    leaves = [x.clone().requires_grad_(), *model.parameters()]
    out = model(leaves[0], hoods)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_compiled_model_gives_the_same_results_and_gradients(backend, dtype):
    torch.manual_seed(0)
    edges = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 4, 2]])
    hoods = [khop(edges, 6, hops) for hops in (1, 2)]
    model, x = Model((1, 2)).to(dtype), torch.randn(6, 3, dtype=dtype)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend=backend)
    for wanted, met in zip(results(model, x, hoods), results(compiled, x, hoods), strict=True):
        torch.testing.assert_close(met, wanted)
