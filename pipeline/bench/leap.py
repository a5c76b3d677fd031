"""LEAP with ready neighbourhoods, forward and backward, against what one writes with PyG alone."""

from collections.abc import Iterator

from leap.pipeline.bench.contest import Rival, contest, thread_choices
from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import Session
from leap.store.errors import WorkFailedError

TARGETS = {16: 20.0, 512: 40.0}
"""Required ratio by number of graphs in a batch."""
TOLERANCE = 1e-3
"""Of encodings: a sigmoid of scale 128 multiplies the rounding errors of float32 heights."""


def compare_leap(session: Session) -> Iterator[Comparison]:
    """Compare for each batch of `TARGETS`; neighbourhoods and statistics are given, as a stream gives them."""
    for graphs, target in TARGETS.items():
        rivals, nodes = _rivals(graphs)
        session.reporter.note(f"LEAP with PyG alone, {graphs} graphs")
        with session.reporter.task(f"LEAP, {graphs} graphs", None):
            seconds = contest(rivals, session.options.repeats)
        what = f"LEAP-L linear, forward and backward, {graphs} graphs of {nodes:,} nodes"
        yield Comparison("leap", what, seconds["ours"], seconds["peer"], target)


def _rivals(graphs: int) -> tuple[dict[str, Rival], int]:
    """Return both with the same weights on a batch, and its number of nodes."""
    import torch

    from leap.models import LEAP
    from leap.pipeline.bench.letter_like import letter_like
    from leap.pipeline.bench.pyg_leap import PygLeap

    batch = letter_like(graphs)
    leap = LEAP(batch.x.shape[1], projection="linear")
    peer = PygLeap(leap.get_parameter("encoders.0.parametrizations.directions.original"))
    peer.linear.load_state_dict(leap.get_submodule("encoders.0.projection.linear").state_dict())

    def ours() -> torch.Tensor:
        encoding: torch.Tensor = leap(batch.x, batch.neighborhoods, batch.stats)
        return encoding

    def theirs() -> torch.Tensor:
        encoding: torch.Tensor = peer(batch.x, batch.edge_index)
        return encoding

    with torch.no_grad():
        difference = float((ours() - theirs()).abs().max())
    if not difference < TOLERANCE:
        raise WorkFailedError(
            f"LEAP and its peer differ by {difference:.2g}. Nothing can be compared before that is understood."
        )
    both = {"ours": ours, "peer": theirs}
    rivals = {
        name: Rival(lambda encode=encode: encode().square().sum().backward(), thread_choices())  # type: ignore[misc]
        for name, encode in both.items()
    }
    return rivals, len(batch.x)
