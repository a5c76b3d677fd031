"""The parts of the benchmark by name; a new one is one file and one entry here."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from leap.pipeline.bench.dect import compare_dect
from leap.pipeline.bench.epoch import compare_epoch
from leap.pipeline.bench.extract import compare_extract
from leap.pipeline.bench.khop import compare_khop
from leap.pipeline.bench.lape import compare_lape
from leap.pipeline.bench.large import measure_large
from leap.pipeline.bench.leap import compare_leap
from leap.pipeline.bench.result import Comparison, MemoryUse
from leap.pipeline.bench.session import Session
from leap.pipeline.bench.stream import measure_stream


@dataclass(frozen=True)
class Part:
    """A part of the benchmark.

    Attributes
    ----------
    run : yields measurements as they are made.
    summary : one line for people.
    is_default : whether it runs when no part is named.
    """

    run: Callable[[Session], Iterable[Comparison | MemoryUse]]
    summary: str
    is_default: bool = True


PARTS: dict[str, Part] = {
    "khop": Part(compare_khop, "the extraction kernel against PyG's k_hop_subgraph for every node"),
    "extract": Part(compare_extract, "the whole extract stage against the same"),
    "lape": Part(compare_lape, "LaPE against PyG's AddLaplacianEigenvectorPE"),
    "leap": Part(compare_leap, "LEAP, forward and backward, against the same with PyG alone"),
    "dect": Part(compare_dect, "the transform against the best that vectorized torch operations give"),
    "epoch": Part(compare_epoch, "epochs of training against PyG alone, a ready transform and RWPE"),
    "stream": Part(measure_stream, "batches from a store ten times the memory", is_default=False),
    "large": Part(measure_large, "time and memory of ingest and extract on a large graph", is_default=False),
}
