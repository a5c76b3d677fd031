"""Epochs of training as `leap train` does it, validation and checkpoints included, against a loop with PyG alone."""

import statistics
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from torch_geometric.data import Batch, Data
from torch_geometric.loader import DataLoader

from benchmarks.kernels import check_equal
from benchmarks.measuring import Measurement, Session, contest_of_reports, seconds_of
from benchmarks.rivals import PygTransform
from leap.models.backbones import GraphBatch
from leap.models.encodings import LeapEncoding, NodeData
from leap.models.network import DatasetFacts, Network
from leap.models.network_config import NetworkConfig
from leap.pipeline import Context, TrainOptions, Workforce, ingest, khop, to_pyg, train
from leap.store import Store

DATASET = "letters-high"
EPOCHS = 5
TOLERANCE = 1e-3
PYG_TARGET, FIXED_TARGET, RWPE_TARGET = 4.0, 1 / 1.5, 1 / 1.15
LEARNED = NetworkConfig(backbone="nomp", encoding="leap-l", projection="conv1d")
OURS = {
    "leap-l": LEARNED,
    "leap-f conv1d": NetworkConfig(backbone="nomp", encoding="leap-f", projection="conv1d"),
    "leap-f linear": NetworkConfig(backbone="nomp", encoding="leap-f", projection="linear"),
    "rwpe": NetworkConfig(backbone="nomp", encoding="rwpe"),
}


def measure_epoch(session: Session, epochs: int = EPOCHS) -> Iterator[Measurement]:
    """Compare epochs in batches of 16 and on one thread, as a fold is trained.

    One thread is best for PyG too: its many small operations have nothing to share out.
    """
    context = Context(Store.open(session.folder / "epoch"), workforce=Workforce(0))
    options = {name: TrainOptions(network=network, folds=2, epochs=epochs) for name, network in OURS.items()}
    runs = session.folder / "runs"
    rivals = {name: partial(_seconds_of_training, chosen, context, runs) for name, chosen in options.items()}
    session.note(f"epochs of {DATASET}, with PyG's k_hop_subgraph at every step among them")
    with torch.random.fork_rng(devices=[]):
        rivals["pyg"] = partial(_seconds_of_pyg, *pyg_peer(context, options["leap-l"]))
        seconds = contest_of_reports(rivals, session.repeats)
    against = {
        f"epoch of nomp, LEAP-L conv1d on {DATASET}, against PyG alone": ("leap-l", "pyg", PYG_TARGET),
        "the same, against LEAP-F, whose transform is ready in the store": ("leap-l", "leap-f conv1d", FIXED_TARGET),
        "epoch of nomp, LEAP-F linear from the store, against RWPE's": ("leap-f linear", "rwpe", RWPE_TARGET),
        "epoch of nomp, LEAP-F conv1d from the store, against RWPE's": ("leap-f conv1d", "rwpe", RWPE_TARGET),
    }
    for what, (ours, peer, target) in against.items():
        yield Measurement("epoch", what, seconds[ours], seconds[peer], target)


def _seconds_of_training(options: TrainOptions, context: Context, runs: Path) -> float:
    """Train all folds once more; return the median time of an epoch, as the run reports it."""
    metrics = train(DATASET, options, context, runs=runs, force=True).metrics
    return statistics.median(fold["seconds_an_epoch"] for fold in metrics["folds"])


class PygNetwork(nn.Module):
    """Backbone and projection of a network of ours, with the peer's way to the transform."""

    def __init__(self, ours: Network) -> None:
        super().__init__()
        encoding = ours.encodings["leap-l"]
        assert isinstance(encoding, LeapEncoding)
        leap = encoding.leap
        self.transform = PygTransform(leap.get_parameter("encoders.0.parametrizations.directions.original"))
        self.projection, self.backbone = leap.get_submodule("encoders.0.projection"), ours.backbone

    def forward(self, batch: Batch) -> Tensor:
        """Return the scores of a batch's graphs."""
        encoding = self.projection(self.transform(batch.x, batch.edge_index), self.transform.directions)
        graphs = GraphBatch(batch.edge_index, batch.ptr, batch.batch)
        return graphs.pool(self.backbone(torch.cat([batch.x, encoding], dim=1), graphs))


def pyg_peer(context: Context, options: TrainOptions) -> tuple[PygNetwork, list[Data], TrainOptions]:
    """Return the peer and its data, after a look at whether it computes the same."""
    dataset = context.store.get(ingest(DATASET, context=context)["dataset"].key)
    graphs = list(to_pyg(dataset))
    facts = DatasetFacts(features=graphs[0].x.shape[1], outputs=len(dataset.manifest.summary["classes"]))
    torch.manual_seed(options.seed)
    ours = Network(options.network, facts).eval()
    peer = PygNetwork(ours).eval()
    batch = Batch.from_data_list(graphs[: options.batch_size])
    nodes = NodeData(GraphBatch(batch.edge_index, batch.ptr, batch.batch), {1: khop(batch.edge_index, batch.num_nodes)})
    check_equal("a network", {"ours": partial(ours, batch.x, nodes), "pyg": partial(peer, batch)}, TOLERANCE)
    return peer, graphs, options


def _seconds_of_pyg(network: PygNetwork, graphs: list[Data], options: TrainOptions) -> float:
    """Train for one epoch on as many graphs as a fold has, and look at as many for validation."""
    learned = (len(graphs) * (options.folds - 1) // options.folds) * 3 // 4
    validated = learned // 3
    optimizer = torch.optim.Adam(network.parameters(), lr=options.lr)

    def epoch() -> None:
        network.train()
        for batch in DataLoader(graphs[:learned], options.batch_size, shuffle=True):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(batch), batch.y).backward()
            optimizer.step()
        network.eval()
        with torch.no_grad():
            for batch in DataLoader(graphs[-validated:], options.batch_size):
                nn.functional.cross_entropy(network(batch), batch.y)

    return seconds_of(epoch)
