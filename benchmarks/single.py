"""One fold at a time, with torch's own modules, as version 0.1 trained: what stacks are measured against.

Parameters have the names that ours have, so that both start from one state dict. The transform, stored encodings and
sums over neighbours are ours: they were compiled in version 0.1 already.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.optim.lr_scheduler import ReduceLROnPlateau

from leap.models.backbones import GcnBackbone, GraphBatch, NompBackbone
from leap.models.encodings import LeapEncoding, NodeData
from leap.models.layers import MapAndBias
from leap.models.messages import gather, gcn_weights
from leap.models.network import DatasetFacts, Network
from leap.models.network_config import NetworkConfig
from leap.models.projections import ConvolutionProjection
from leap.pipeline.engine.fold import open_inputs
from leap.pipeline.engine.jobs import FoldJob
from leap.pipeline.engine.run_folder import BEST, LAST
from leap.pipeline.training.checkpoint import save
from leap.pipeline.training.data import evaluation_batch_size, node_data
from leap.pipeline.training.metrics import classification_metrics
from leap.pipeline.training.options import PATIENCE
from leap.pipeline.training.requirements import name_in_batch
from leap.store.graphs import ArrayBatch, GraphStream


class PaddedNomp(nn.Module):
    """NoMP with torch's transformer layer: graphs are padded to the largest of the batch, and masked."""

    def __init__(self, ours: NompBackbone) -> None:
        super().__init__()
        self.embed, self.encoder, self.readout = ours.embed, ours.encoder, ours.readout

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Return the scores of nodes; no graph may be empty."""
        sizes = graphs.ptr.diff()
        count, width = len(sizes), int(sizes.max())
        flat = graphs.batch * width + torch.arange(len(x)) - graphs.ptr[graphs.batch]
        hidden = self.embed(x)
        padded = hidden.new_zeros(count * width, hidden.shape[1]).index_copy(0, flat, hidden)
        is_padding = torch.ones(count * width, dtype=torch.bool)
        is_padding[flat] = False
        mixed = self.encoder(padded.view(count, width, -1), src_key_padding_mask=is_padding.view(count, width))
        scores: Tensor = self.readout(mixed.reshape(count * width, -1)[flat])
        return scores


class SeparateGcn(nn.Module):
    """Graph convolutions whose map, sum, bias and ReLU are operations of their own."""

    def __init__(self, ours: GcnBackbone) -> None:
        super().__init__()
        self.layers = ours.layers

    def forward(self, x: Tensor, graphs: GraphBatch) -> Tensor:
        """Return the scores of nodes."""
        weights = gcn_weights(graphs.edge_index, len(x))
        for number, layer in enumerate(self.layers):
            assert isinstance(layer, MapAndBias)
            x = gather(layer.lin(x.relu() if number else x), graphs.edge_index, weights) + layer.bias
        return x


class SeparateConvolution(nn.Module):
    """The convolutions as linear maps of the transposed series, each an operation of its own."""

    def __init__(self, ours: ConvolutionProjection) -> None:
        super().__init__()
        self.first, self.second, self.third, self.mlp = ours.first, ours.second, ours.third, ours.mlp

    def forward(self, transform: Tensor) -> Tensor:
        """Project (N, D, T) to (N, k)."""
        assert self.third.bias is not None
        series = transform.transpose(1, 2)
        hidden = nn.functional.linear(series, self.first.weight.squeeze(2), self.first.bias).relu()
        hidden = nn.functional.linear(hidden, self.second.weight.squeeze(2), self.second.bias).relu()
        mean = hidden @ self.third.weight.squeeze(2).mean(0) + self.third.bias.mean()
        out: Tensor = self.mlp(mean)
        return out


class SingleNetwork(nn.Module):
    """A network with the backbone gcn or nomp and any encoding; LEAP's projection is conv1d."""

    def __init__(self, config: NetworkConfig, facts: DatasetFacts) -> None:
        super().__init__()
        ours = Network(config, facts)
        self.encodings, backbone = ours.encodings, ours.backbone
        self.backbone = PaddedNomp(backbone) if isinstance(backbone, NompBackbone) else SeparateGcn(backbone)  # type: ignore[arg-type]
        for part in self.encodings.values():
            for encoder in part.leap.encoders if isinstance(part, LeapEncoding) else ():
                encoder.projection = SeparateConvolution(encoder.projection)  # type: ignore[arg-type]

    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        """Return the scores of graphs."""
        graphs = nodes.graphs
        columns = [x, *(part(x, nodes) for part in self.encodings.values())]
        scores = self.backbone(torch.cat(columns, dim=1) if len(columns) > 1 else x, graphs)
        return scores.new_zeros(graphs.num_graphs, scores.shape[1]).index_add(0, graphs.batch, scores)


class SingleBatch(NamedTuple):
    """A batch of one fold as tensors."""

    x: Tensor
    nodes: NodeData
    y: Tensor

    @classmethod
    def of(cls, arrays: ArrayBatch) -> "SingleBatch":
        """Return a batch of labelled graphs."""
        assert arrays.y is not None
        return cls(torch.from_numpy(arrays.x), node_data(arrays), torch.from_numpy(arrays.y))


class SingleTraining:
    """A fold in training, from the weights that the job's seed gives."""

    def __init__(self, job: FoldJob) -> None:
        torch.manual_seed(job.options.seed)
        self.job = job
        self.network = SingleNetwork(job.options.network, job.facts)
        learned = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        self.optimizer = torch.optim.Adam(learned, lr=job.options.lr, fused=True)
        self.scheduler = ReduceLROnPlateau(self.optimizer, factor=0.1, patience=PATIENCE)

    def stream(self, name: str) -> GraphStream:
        """Return the batches of a part of the fold."""
        inputs, options, split = open_inputs(self.job.inputs), self.job.options, self.job.split
        assert split.graphs is not None
        is_training = name == "train"
        return GraphStream(
            inputs.dataset,
            inputs.neighborhoods,
            {name_in_batch(encoding): encoding for encoding in inputs.encodings},
            graphs=split.graphs[name],
            batch_size=options.batch_size if is_training else evaluation_batch_size(inputs.dataset, options.batch_size),
            shuffle=is_training,
            seed=options.seed,
            with_stats=inputs.with_stats,
        )

    def step(self, batch: SingleBatch) -> float:
        """Learn from a batch and return its loss."""
        loss = nn.functional.cross_entropy(self.network(batch.x, batch.nodes), batch.y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.inference_mode()
    def evaluate(self, batches: Iterable[SingleBatch]) -> float:
        """Return the loss of a part; metrics are computed as well."""
        self.network.eval()
        found = [(self.network(batch.x, batch.nodes), batch.y) for batch in batches]
        scores, y = (torch.cat([pair[place] for pair in found]) for place in (0, 1))
        classification_metrics(scores.softmax(1).numpy(), y.numpy())
        return float(nn.functional.cross_entropy(scores, y))

    def epochs(self) -> Iterator[float]:
        """Train to the end; yield the validation loss of each epoch, of which checkpoints are left."""
        train, val = self.stream("train"), [SingleBatch.of(arrays) for arrays in self.stream("val").epoch(0)]
        folder, lowest = Path(self.job.folder), float("inf")
        folder.mkdir(parents=True, exist_ok=True)
        for epoch in range(self.job.options.epochs):
            self.network.train()
            for arrays in train.epoch(epoch):
                self.step(SingleBatch.of(arrays))
            loss = self.evaluate(val)
            self.scheduler.step(loss)
            if loss < lowest:
                lowest = loss
                save(folder / BEST, {"network": self.network.state_dict()})
            state = {"network": self.network.state_dict(), "optimizer": self.optimizer.state_dict()}
            save(folder / LAST, state | {"scheduler": self.scheduler.state_dict()})
            yield loss


def train_single(job: FoldJob) -> list[float]:
    """Train and test a fold on one thread; return the validation loss of each epoch and the loss of the test."""
    torch.set_num_threads(1)
    training = SingleTraining(job)
    losses = list(training.epochs())
    best = torch.load(Path(job.folder) / BEST, weights_only=True)
    training.network.load_state_dict(best["network"])
    return [*losses, training.evaluate(SingleBatch.of(arrays) for arrays in training.stream("test").epoch(0))]
