"""Epochs of training, through the loop of `leap train`, against PyG alone, a ready transform, and RWPE."""

from collections.abc import Iterator

from leap.pipeline.bench.contest import contest_in_pieces
from leap.pipeline.bench.result import Comparison
from leap.pipeline.bench.session import Session

PYG_TARGET, READY_TARGET, RWPE_TARGET = 4.0, 1 / 1.5, 1 / 1.15


def compare_epoch(session: Session) -> Iterator[Comparison]:
    """Compare epochs in batches of 16 and on one thread, as a fold is trained.

    One thread is best for PyG too: its many small operations have nothing to share out.
    """
    import torch

    from leap.pipeline.bench.epoch_rivals import DATASET, epoch_rivals

    session.reporter.note(f"epochs of {DATASET}, with PyG's k_hop_subgraph at every step among them")
    with session.reporter.task("epochs", None), torch.random.fork_rng(devices=[]):
        seconds = contest_in_pieces(epoch_rivals(session.folder / "epoch"), session.options.repeats)
    against = {
        f"epoch of nomp, LEAP-L conv1d on {DATASET}, against PyG alone": ("leap-l", "pyg", PYG_TARGET),
        "the same, against backbone and projection on a ready transform": ("leap-l", "ready", READY_TARGET),
        "epoch of nomp, LEAP-F linear from the store, against RWPE's": ("leap-f linear", "rwpe", RWPE_TARGET),
        "epoch of nomp, LEAP-F conv1d from the store, against RWPE's": ("leap-f conv1d", "rwpe", RWPE_TARGET),
    }
    for what, (ours, peer, target) in against.items():
        yield Comparison("epoch", what, seconds[ours], seconds[peer], target)
