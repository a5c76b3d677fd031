"""Curvature profiles of cut graphs, in training, and where they are refused."""

import networkx as nx
import numpy as np
import pytest

from leap.models.kernels.curvature import curvature_profiles
from leap.pipeline import Context, IngestOptions, TrainOptions, Workforce, encode
from leap.pipeline.datasets.networkx_graphs import from_networkx
from leap.pipeline.derived.lcp import LcpRecipe
from leap.pipeline.training.options import identity
from leap.pipeline.training.requirements import recipes_for
from leap.store import Store
from leap.store.errors import InvalidInputError
from tests.models.kernels.graphs import adjacency


@pytest.fixture
def context(tmp_path):
    return Context(Store.open(tmp_path / "store"), workforce=Workforce(0))


@pytest.mark.parametrize("curvature", ["forman", "augmented", "ollivier"])
def test_a_cut_graph_has_the_curvature_of_the_whole(context, curvature):
    graph = nx.barabasi_albert_graph(150, 3, seed=1)
    source, options = from_networkx([graph], "hubs"), IngestOptions(partition_mb=0.001)
    made = encode(source, "lcp", params={"curvature": curvature}, ingest_options=options, context=context)["lcp"]
    assert made.partitions > 3
    expected = curvature_profiles(*adjacency(graph), curvature).astype(np.float32)
    assert np.array_equal(context.store.get(made.key).load("encoding"), expected)


def test_too_much_transport_is_refused_with_an_estimate(context):
    source = from_networkx([nx.complete_graph(700)], "complete")
    with pytest.raises(InvalidInputError, match=r"curvature of 'complete' is estimated at 5\.\d hours.*to 699"):
        encode(source, "lcp", params={"curvature": "ollivier"}, context=context)
    assert encode(source, "lcp", params={"curvature": "augmented"}, context=context)["lcp"].kind == "lcp"


def test_training_chooses_the_curvature_and_other_runs_keep_their_identity():
    chosen = TrainOptions.of({"encoding": "lcp", "lcp_curvature": "ollivier"})
    assert recipes_for(chosen, is_categorical=False) == [LcpRecipe(curvature="ollivier")]
    assert identity(chosen.flat())["lcp_curvature"] == "ollivier"
    assert "lcp_curvature" not in identity(TrainOptions.of({"encoding": "rwpe", "lcp_curvature": "ollivier"}).flat())
    assert "lcp_curvature" not in identity(TrainOptions.of({"encoding": "lcp"}).flat())
