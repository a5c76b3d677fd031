"""`Network`: features, encodings and a backbone put together for a dataset and its task."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from leap.models.backbones import Widen, make_backbone
from leap.models.devices import lowered
from leap.models.embedding import LEARNED_DIM, CategoricalEmbedding, learned_coordinates
from leap.models.encoder import WholeGraphs
from leap.models.encodings import LeapEncoding, NodeData, make_encoding
from leap.models.generator import borrowed_generator
from leap.models.layers import Noisy, mlp
from leap.models.network_config import DatasetFacts, NetworkConfig
from leap.models.registries import BACKBONES, backbone_traits
from leap.store.errors import InvalidInputError
from leap.store.graphs.tasks import is_node_task

OF_GRAPHS = ("directions", "thresholds", "scale", "radius", "edge_weight")
"""Options of a transform of whole graphs."""


class Network(nn.Module):
    """A backbone on node features with encodings beside them.

    Categorical features are embedded first; LEAP then looks at points in R³ that are learned from the embedding.
    Initialization draws from torch's global generator, except for LEAP's directions, which start from seed 0.

    Examples
    --------
    >>> letters = DatasetFacts(features=2, outputs=15)
    >>> Network(NetworkConfig(backbone="gcn", encoding="none"), letters).count_parameters()["total"]
    3759
    >>> counts = Network(NetworkConfig(backbone="gcn", encoding="leap-f"), letters).count_parameters()
    >>> counts
    {'backbone': 4079, 'leap-f': 794, 'total': 4873}
    """

    def __init__(self, config: NetworkConfig, facts: DatasetFacts) -> None:
        super().__init__()
        self.config, self.facts = config, facts
        self.looks_at_graphs = backbone_traits(config.backbone).looks_at_graphs
        of_nodes = is_node_task(facts.task)
        if self.looks_at_graphs and of_nodes:
            raise InvalidInputError(f"{config.backbone} classifies whole graphs, not nodes. Use another backbone.")
        if config.whole and of_nodes:
            raise InvalidInputError("--whole adds to the scores of graphs, and this is a node task. Leave it out.")
        self.embedding = None if facts.codes is None else CategoricalEmbedding(facts.codes)
        _check_edges(config, facts)
        is_embedded = config.sees_edges and facts.edge_codes is not None
        self.edge_embedding = CategoricalEmbedding(facts.edge_codes or (), "edge attribute") if is_embedded else None
        width = facts.features if self.embedding is None else self.embedding.out_channels
        looks_at_features = self.looks_at_graphs or (config.leap is not None and config.leap_on == "features")
        needs_coordinates = self.embedding is not None and looks_at_features
        self.coordinates = learned_coordinates(width) if needs_coordinates else None
        seen = LEARNED_DIM if needs_coordinates else width
        encodings = {part: make_encoding(part, config, facts, seen) for part in config.parts}
        self.encodings = nn.ModuleDict(encodings)
        self.layer_encodings = nn.ModuleList()
        self.whole: nn.Module | None = None
        self.is_pooled = not self.looks_at_graphs and not of_nodes
        transform: dict[str, Any] = {name: getattr(config, name) for name in OF_GRAPHS}
        if self.looks_at_graphs:
            self.backbone: nn.Module = BACKBONES[config.backbone](seen, facts.outputs, **transform)
            return
        if config.whole:
            self.whole = WholeGraphs(
                seen,
                facts.outputs,
                dim=config.dim,
                projection=config.projection,
                learn_directions=config.learns_directions,
                **transform,
            )
        width += sum(part.out_channels for part in encodings.values())
        extra = config.dim if config.leap_every_layer else 0
        backbone = make_backbone(
            config.backbone,
            width,
            facts.outputs,
            config.hidden,
            config.layers,
            extra,
            config.norm,
            config.residual,
            config.feed_forward,
            config.dropout,
            _edge_channels(config, facts, self.edge_embedding),
        )
        self.backbone = backbone
        if config.leap_every_layer:
            self.layer_encodings.extend(LeapEncoding(config, width) for width in backbone.widths[1:-1])
        site = 0
        for module in self.modules():
            if isinstance(module, Noisy):
                module.first_site = site
                site += module.sites

    def forward(self, x: Tensor, nodes: NodeData) -> Tensor:
        """Return scores: (G, outputs), or (N, outputs) for node tasks.

        Parameters
        ----------
        x : (N, features) float, or int64 for categorical features.
        """
        if x.ndim != 2 or x.shape[1] != self.facts.features:
            raise InvalidInputError(f"x must have shape (N, {self.facts.features}). Got {tuple(x.shape)}.")
        with lowered(x.device, self.config.precision):
            scores = self._scores(x, nodes)
        return scores.float() if scores.dtype == torch.bfloat16 else scores

    def _scores(self, x: Tensor, nodes: NodeData) -> Tensor:
        if self.config.needs_edge_attr:
            nodes = self._with_edges(nodes)
        graphs = nodes.graphs
        features = x if self.embedding is None else self.embedding(x, graphs.rows)
        points = features if self.coordinates is None else mlp(self.coordinates, features, graphs.rows)
        if self.looks_at_graphs:
            scores: Tensor = self.backbone(points, graphs)
            return scores
        columns = [features, *(part(points, nodes) for part in self.encodings.values())]
        joined = torch.cat(columns, dim=1) if len(columns) > 1 else features
        rows: Tensor = self.backbone(joined, graphs, self._widen(nodes)).to(joined.dtype)
        if not self.is_pooled:
            return rows
        scores = graphs.pool(rows) if self.config.pooling == "sum" else graphs.mean(rows)
        return scores if self.whole is None else scores + self.whole(points, graphs)

    def _with_edges(self, nodes: NodeData) -> NodeData:
        """Return nodes whose edges have the columns that the backbone takes, and weights for the transform."""
        graphs, column = nodes.graphs, self.config.edge_weight_from
        attributes = graphs.attributes()
        if attributes.shape[1] != self.facts.edge_features:
            raise InvalidInputError(
                f"edge_attr must have shape (E, {self.facts.edge_features}). Got {tuple(attributes.shape)}."
            )
        weights = None if column is None else attributes[:, column]
        if self.edge_embedding is not None:
            attributes = self.edge_embedding(attributes, graphs.edge_rows)
        return replace(nodes, graphs=replace(graphs, edge_attr=attributes, edge_weights=weights))

    def _widen(self, nodes: NodeData) -> Widen | None:
        if not len(self.layer_encodings):
            return None

        def widen(number: int, states: Tensor) -> Tensor:
            columns: Tensor = self.layer_encodings[number - 1](states, nodes)
            return columns

        return widen

    def count_parameters(self) -> dict[str, int]:
        """Count trainable parameters: of the backbone, of what is learned beside it, and in total."""
        counts = {"backbone": _count(self.backbone)}
        counts |= {name: _count(part) for name, part in self.encodings.items()}
        counts["every layer"] = _count(self.layer_encodings)
        counts["whole graphs"] = 0 if self.whole is None else _count(self.whole)
        embeddings = (self.embedding, self.coordinates, self.edge_embedding)
        counts["embedding"] = sum(_count(part) for part in embeddings if part is not None)
        shown = {name: count for name, count in counts.items() if count or name == "backbone"}
        return shown | {"total": sum(counts.values())}


def _check_edges(config: NetworkConfig, facts: DatasetFacts) -> None:
    """Refuse networks that need attributes of edges which are not there, or not of the kind that is needed."""
    column = config.edge_weight_from
    if config.sees_edges and not facts.edge_features:
        raise InvalidInputError(f"{config.backbone} needs attributes of edges, and the edges have none.")
    if column is None:
        return
    if column >= facts.edge_features:
        raise InvalidInputError(
            f"edge_weight_from is {column}, and the edges have {facts.edge_features} columns of attributes, counted "
            "from 0."
        )
    if facts.edge_codes is not None:
        raise InvalidInputError(
            f"edge_weight_from is {column}, and the attributes of the edges are categories, which cannot weigh "
            "anything. Store measurements as reals."
        )


def _edge_channels(config: NetworkConfig, facts: DatasetFacts, embedding: CategoricalEmbedding | None) -> int:
    if not config.sees_edges:
        return 0
    return facts.edge_features if embedding is None else embedding.out_channels


def count_parameters(config: NetworkConfig, facts: DatasetFacts) -> dict[str, int]:
    """Count the trainable parameters of a network that is made only for this; torch's generator is left alone."""
    with borrowed_generator():
        return Network(config, facts).count_parameters()


def _count(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)


__all__ = ["DatasetFacts", "Network", "NetworkConfig", "NodeData", "count_parameters"]
