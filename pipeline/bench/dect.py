"""`dect`, forward and backward, against the best that vectorized torch operations give."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from leap.pipeline.bench.contest import Rival, contest, thread_choices
from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import Session
from leap.store.errors import WorkFailedError

if TYPE_CHECKING:
    from torch import Tensor

GRAPHS = 512
TARGETS = {8.0: 1.0, 32.0: 1.0, 128.0: 2.0, 512.0: 1.0}
"""Required ratio by the scale of the sigmoid."""
ROUNDING = 1e-5
"""Of heights, and so of values divided by the scale."""
OURS = "ours"


def compare_dect(session: Session) -> Iterator[Comparison]:
    """Compare at each scale of `TARGETS` with the fastest of several ways to write it with torch."""
    import torch

    from leap.models import dect
    from leap.models.kernels.directions import random_directions, threshold_grid
    from leap.pipeline.bench.letter_like import letter_like
    from leap.pipeline.bench.torch_dect import Operands, torch_dects

    batch = letter_like(GRAPHS)
    x, hoods, stats = batch.x, batch.neighborhoods, batch.stats
    directions = torch.from_numpy(random_directions(x.shape[1], 16)).float().requires_grad_()
    thresholds = torch.from_numpy(threshold_grid(16, 1.1)).float()
    upstream = torch.rand(len(x), 16, 16, generator=torch.Generator().manual_seed(0))

    def learn(transform: "Callable[[], Tensor]") -> None:
        directions.grad = None
        transform().backward(upstream)  # type: ignore[no-untyped-call]

    for scale, target in TARGETS.items():
        ways = torch_dects(Operands(x, hoods, directions, thresholds, scale, stats))
        ways[OURS] = partial(dect, x, hoods, directions, thresholds, scale, stats=stats)
        _check_equal(ways, scale)
        rivals = {name: Rival(partial(learn, way), thread_choices()) for name, way in ways.items()}
        with session.reporter.task(f"dect at scale {scale:g}", None):
            seconds = contest(rivals, session.options.repeats)
        ours = seconds.pop(OURS)
        what = f"dect at scale {scale:g}, forward and backward, {GRAPHS} graphs, against torch operations"
        yield Comparison("dect", what, ours, min(seconds.values()), target)


def _check_equal(ways: "dict[str, Callable[[], Tensor]]", scale: float) -> None:
    ours = ways[OURS]().detach()
    for name, way in ways.items():
        difference = float((way().detach() - ours).abs().max())
        if not difference < ROUNDING * scale:
            raise WorkFailedError(
                f"dect and its peer '{name}' differ by {difference:.2g} at scale {scale:g}. "
                "Nothing can be compared before that is understood."
            )
