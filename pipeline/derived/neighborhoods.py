"""m-hop neighbourhoods of every node: of a graph in memory, and of a stored dataset with the mean and scale of each."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from leap.models import kernels
from leap.pipeline.derived.recipe import Arrays, Plan, Recipe, partition_target
from leap.pipeline.partition import cumulative, plan_partitions
from leap.pipeline.reader import GraphReader, LocalGraph
from leap.store import Artifact, Neighborhoods, Partition
from leap.store.errors import InvalidInputError, NeighborhoodsTooLargeError
from leap.store.graphs import StoredNeighborhoods
from leap.store.option import Option

MEMBERS_A_SECOND = 2e7
SAMPLED_NODES = 1024
SAMPLED_PARTITIONS = 16

Hops = Annotated[int, Field(ge=1, le=32), Option(help="Hop count of the neighbourhoods.", metavar="M")]
Cap = Annotated[
    int | None,
    Field(ge=2, lt=2**31),
    Option(help="At most N nodes in a neighbourhood, sampled; nearer hops are kept first.", metavar="N"),
]
CapSeed = Annotated[int, Field(ge=0, lt=2**63), Option(help="Seed of that sample.", metavar="SEED")]


def khop(
    edge_index: Any, num_nodes: int | None = None, hops: int = 1, *, cap: int | None = None, seed: int = 0
) -> Neighborhoods:
    """Extract the m-hop neighbourhood of every node: all nodes within `hops` hops and the edges among them.

    Parameters
    ----------
    edge_index : (2, E) integer ids, anything numpy understands or a torch tensor. The graph is made undirected
        and simple first: either or both directions, repeated entries and self-loops give the same result.
    num_nodes : default: the largest id + 1, so that isolated nodes at the end need it.
    hops : at least 1.
    cap : at most this many members a neighbourhood. The node itself is always kept, nearer hops come first, and of
        the hop that overflows a uniform sample without replacement is kept, drawn with (`seed`, id of the node).

    Returns
    -------
    Neighborhoods of numpy arrays; of tensors on the device of `edge_index` if that is a tensor.

    Raises
    ------
    InvalidInputError
        Wrong shape or type, ids that are negative or not below `num_nodes`, `hops` or `cap` below 1.

    Examples
    --------
    >>> hoods = khop([[0, 1, 2], [1, 2, 3]], num_nodes=5, hops=2)
    >>> [hoods.members(v).tolist() for v in range(5)]
    [[0, 1, 2], [1, 0, 2, 3], [2, 1, 3, 0], [3, 2, 1], [4]]

    With tensors, as in PyG:

    >>> import torch
    >>> khop(torch.tensor([[0, 1], [1, 0]])).edges
    tensor([[0, 0],
            [1, 1]], dtype=torch.int32)
    """
    hops, seed = kernels.whole_number("hops", hops), kernels.whole_number("seed", seed)
    cap = None if cap is None else kernels.whole_number("cap", cap)
    if cap is not None and cap < 1:
        raise InvalidInputError(f"A neighbourhood holds at least its own node, but cap = {cap}.")
    # A tensor is recognized without importing torch: whoever passes one has imported it.
    device = getattr(edge_index, "device", None) if hasattr(edge_index, "detach") else None
    try:
        entries = edge_index.detach().cpu().numpy() if device is not None else np.asarray(edge_index)
    except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        raise InvalidInputError(
            f"edge_index must be a dense (2, E) list of integers. It cannot be read: {error}"
        ) from None
    if num_nodes is None:
        countable = entries.size and np.issubdtype(entries.dtype, np.integer)
        num_nodes = int(entries.max()) + 1 if countable else 0
    csr = kernels.build_csr(entries, kernels.whole_number("num_nodes", num_nodes))
    arrays = kernels.khop_arrays(csr.indptr, csr.indices, hops, cap=cap or 0, seed=seed)
    hoods = Neighborhoods(*arrays, hops=hops, cap=cap)
    return hoods if device is None else hoods.to(device)


class NeighborhoodsRecipe(Recipe):
    """Neighbourhoods of `hops` hops, each with at most `cap` nodes if that is given.

    A capped neighbourhood keeps its centre and nearer hops first, and samples the hop that overflows with a
    generator that depends on `cap_seed` and the node alone.
    """

    kind: ClassVar[str] = "neighborhoods"
    algorithm: ClassVar[int] = 1

    hops: Hops
    cap: Cap = None
    cap_seed: CapSeed = 0

    @model_validator(mode="before")
    @classmethod
    def _seed_without_cap_means_nothing(cls, values: Any) -> Any:
        if isinstance(values, dict) and values.get("cap") is None:
            return {name: value for name, value in values.items() if name != "cap_seed"}
        return values

    def plan(self, reader: GraphReader, inputs: Mapping[str, Artifact]) -> Plan:
        """Refine the dataset's partitions by the estimated size of the neighbourhoods."""
        expected = estimate(reader, self.hops, self.cap, self.cap_seed)
        degree = reader.dataset.degrees()
        weight = np.minimum(degree + 1, self.cap or np.iinfo(np.int64).max).astype(np.float64)
        weight *= expected.index_bytes / max(1.0, float(weight.sum()))
        weight += _statistics_bytes(reader.dataset)
        partitions = plan_partitions(
            reader.dataset.node_ptr(), cumulative(weight), partition_target(reader.dataset), reader.dataset.partitions
        )
        width = reader.dataset.manifest.summary["features"]
        work = expected.members * (1 + width / 8) + expected.edges
        return Plan(partitions, work / MEMBERS_A_SECOND, float(weight.sum()), expected.as_facts())

    def check_budget(self, dataset: Artifact, plan: Plan, budget: float) -> None:
        """Raise NeighborhoodsTooLargeError if the estimate exceeds the budget."""
        if plan.bytes > budget:
            raise NeighborhoodsTooLargeError(
                f"the {self.hops}-hop neighbourhoods of {dataset.manifest.dataset!r} are estimated at "
                f"{plan.facts['estimated_memberships']:,} memberships and {plan.facts['estimated_edges']:,} edges, "
                f"{plan.bytes / 2**30:.3g} GiB; the budget is {budget / 2**30:.3g} GiB. Use fewer --hops, limit "
                "neighbourhoods with --cap (64, say), or raise --budget-gb."
            )

    def compute(
        self, reader: GraphReader, partition: Partition, inputs: Mapping[str, Artifact]
    ) -> tuple[Arrays, dict[str, Any]]:
        """Extract the partition's neighbourhoods with dataset-wide ids."""
        local = reader.around(partition.node_lo, partition.node_hi, self.hops)
        node_ptr, nodes, edge_ptr, edges = kernels.khop_arrays(
            local.indptr,
            local.indices,
            self.hops,
            sources=local.sources,
            cap=self.cap or 0,
            seed=self.cap_seed,
            global_ids=local.ids,
        )
        sizes = np.diff(node_ptr)
        statistics: dict[str, Any] = {
            "memberships": len(nodes),
            "edges": edges.shape[1],
            "max_members": int(sizes.max(initial=0)),
            "max_edges": int(np.diff(edge_ptr).max(initial=0)),
        }
        mean = scale = None
        if not reader.dataset.manifest.summary["categorical"]:
            mean, scale = _mean_and_scale(reader, local, node_ptr, nodes)
            if not np.isfinite(scale).all():
                raise InvalidInputError(
                    f"the features of {reader.dataset.manifest.dataset!r} reach {np.abs(mean).max():.3g} and more, and "
                    "the spread of a neighbourhood does not fit a 32-bit number. Scale them down."
                )
            statistics["constant"] = int((scale == 0).sum())
            statistics["max_scale"] = float(scale.max(initial=0.0))
        ids = local.ids.astype(nodes.dtype)
        is_shifted = len(ids) > 0 and not (ids[0] == 0 and ids[-1] == len(ids) - 1)
        found = (ids[nodes], ids[edges]) if is_shifted else (nodes, edges)
        hoods = Neighborhoods(node_ptr, found[0], edge_ptr, found[1], self.hops, self.cap)
        return StoredNeighborhoods.arrays(hoods, mean, scale), statistics


def _mean_and_scale(reader: GraphReader, local: LocalGraph, node_ptr: Any, nodes: Any) -> tuple[Any, Any]:
    """Read only the rows that are members: a piece of a cut graph may be much larger than what is asked for."""
    if len(local.ids) <= 2 * len(local.sources):
        return kernels.mean_and_scale(reader.features(local.ids), node_ptr, nodes)
    is_member = np.zeros(len(local.ids), dtype=bool)
    is_member[nodes] = True
    position = (np.cumsum(is_member) - 1).astype(nodes.dtype)
    return kernels.mean_and_scale(reader.features(local.ids[is_member]), node_ptr, position[nodes])


def _statistics_bytes(dataset: Artifact) -> float:
    """Bytes per node of pointers, mean and scale."""
    summary = dataset.manifest.summary
    return 16.0 + (0 if summary["categorical"] else 4.0 * summary["features"] + 4.0)


@dataclass(frozen=True)
class Estimate:
    """Expected totals over all neighbourhoods.

    Attributes
    ----------
    members, edges : expected sums over all nodes of the neighbourhoods' nodes and edges.
    sampled : number of nodes that were looked at; all of them make the estimate exact.
    """

    members: float
    edges: float
    nodes: int
    sampled: int
    id_bytes: int

    @property
    def index_bytes(self) -> float:
        """Bytes of all node and edge indices, uncompressed."""
        return self.id_bytes * (self.members + 2 * self.edges)

    def as_facts(self) -> dict[str, Any]:
        """Return the estimate for a manifest."""
        return {
            "estimated_memberships": round(self.members),
            "estimated_edges": round(self.edges),
            "sampled_nodes": self.sampled,
        }


def estimate(reader: GraphReader, hops: int, cap: int | None, seed: int) -> Estimate:
    """Count neighbourhoods of a fixed, evenly spread sample of nodes and scale up.

    Up to `SAMPLED_NODES` nodes of up to `SAMPLED_PARTITIONS` partitions are counted exactly. Nodes are taken evenly
    from the order of degrees inside each partition, which makes the few large neighbourhoods count as they should.
    """
    parts = [part for part in reader.dataset.partitions if part.num_nodes]
    step = max(1, -(-len(parts) // SAMPLED_PARTITIONS))
    chosen = parts[::step]
    quota = max(1, SAMPLED_NODES // max(1, len(chosen)))
    members = edges = 0.0
    sampled = covered = 0
    for part in chosen:
        order = np.argsort(reader.dataset.degrees(part.index), kind="stable")
        picked = np.sort(order[_evenly(len(order), quota)]) + part.node_lo
        local = reader.around_ids(picked.astype(np.int64), hops)
        found_members, found_edges = kernels.count_khop(
            local.indptr, local.indices, hops, local.sources, cap=cap or 0, seed=seed, global_ids=local.ids
        )
        factor = part.num_nodes / len(picked)
        members += float(found_members.sum()) * factor
        edges += float(found_edges.sum()) * factor
        sampled += len(picked)
        covered += part.num_nodes
    nodes = sum(part.num_nodes for part in parts)
    scale = nodes / covered if covered else 0.0
    id_bytes = 4 if nodes < 2**31 else 8
    return Estimate(members * scale, edges * scale, nodes, sampled, id_bytes)


def _evenly(count: int, quota: int) -> NDArray[np.int64]:
    """Return at most `quota` positions spread evenly over `count`, in the middle of equal strata."""
    quota = min(count, quota)
    return ((np.arange(quota) + 0.5) * count / quota).astype(np.int64)
