"""Estimate how large neighbourhoods will be before extracting them."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leap.models import kernels
from leap.pipeline.reader import GraphReader

SAMPLED_NODES = 1024
SAMPLED_PARTITIONS = 16


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
