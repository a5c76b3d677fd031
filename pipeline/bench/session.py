"""What the parts of one benchmark run share: options, the graph, and slow peers that are measured once."""

import functools
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict, Field, model_validator

from leap.pipeline.progress import Reporter, Silence
from leap.store.errors import WorkFailedError

if TYPE_CHECKING:
    import torch

GRAPH = "romanesque"


class BenchOptions(BaseModel):
    """Choices of a benchmark run.

    Attributes
    ----------
    repeats : calls of our own code that the median is taken of.
    nodes, edges, workers : size of the generated graph of the part "large", and processes that extract it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    repeats: int = Field(default=7, ge=1, le=1000)
    nodes: int = Field(default=2_000_000, ge=2)
    edges: int = Field(default=10_000_000, ge=1)
    workers: int = Field(default=2, ge=0)

    @model_validator(mode="after")
    def _edges_fit(self) -> "BenchOptions":
        if self.edges > self.nodes * (self.nodes - 1) // 4:
            raise ValueError(f"{self.edges} edges are more than half of what {self.nodes} nodes can have")
        return self


@dataclass(frozen=True)
class Graph:
    """The graph that kernels are compared on: `edge_index` (2, 2E) int64 as PyG lists it, sorted."""

    edge_index: "torch.Tensor"
    num_nodes: int


@dataclass
class Session:
    """One run of the benchmark.

    Attributes
    ----------
    folder : a folder for stores and files of this run, removed afterwards by whoever made it.
    """

    folder: Path
    options: BenchOptions = field(default_factory=BenchOptions)
    reporter: Reporter = field(default_factory=Silence)
    _loops: dict[int, float] = field(default_factory=dict)

    @functools.cached_property
    def graph(self) -> Graph:
        """The graph `GRAPH`, generated when first asked for."""
        import numpy as np
        import torch

        from leap.pipeline.canonical import canonicalize
        from leap.pipeline.datasets import resolve

        graphs = canonicalize(resolve(GRAPH).read())
        rows = np.repeat(np.arange(graphs.num_nodes, dtype=np.int64), np.diff(graphs.indptr))
        edge_index = torch.from_numpy(np.stack([rows, graphs.indices.astype(np.int64)]))
        return Graph(edge_index, graphs.num_nodes)

    def loop_seconds(self, hops: int) -> float:
        """Wall time of PyG's `k_hop_subgraph` called for every node; measured once in a run.

        Raises
        ------
        WorkFailedError
            If its neighbourhoods are not as large as ours: the comparison would be worthless.
        """
        if hops not in self._loops:
            from leap.pipeline import khop
            from leap.pipeline.bench.pyg_khop import timed_khop_loop

            graph = self.graph
            self.reporter.note(f"PyG's k_hop_subgraph for each of {graph.num_nodes:,} nodes, hops={hops}")
            with self.reporter.task(f"PyG, hops={hops}", None):
                seconds, found = timed_khop_loop(graph.edge_index, graph.num_nodes, hops)
            theirs = (sum(len(nodes) for nodes, _ in found), sum(edges.shape[1] for _, edges in found) // 2)
            hoods = khop(graph.edge_index, graph.num_nodes, hops)
            ours = (len(hoods.nodes), hoods.edges.shape[1])
            if theirs != ours:
                raise WorkFailedError(
                    f"PyG finds {theirs[0]:,} members and {theirs[1]:,} edges in {hops}-hop neighbourhoods, and we "
                    f"find {ours[0]:,} and {ours[1]:,}. Nothing can be compared before that is understood."
                )
            self._loops[hops] = seconds
        return self._loops[hops]
