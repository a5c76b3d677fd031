"""Projections and backbones by name: the built-in ones, and those of other packages."""

import subprocess
import sys

import pytest
import torch
from torch import Tensor, nn

from leap.models import LEAP
from leap.models.backbones import Backbone, GraphBackbone, GraphBatch, LayeredBackbone, make_backbone
from leap.models.projections import Projection
from leap.models.registries import BACKBONES, PROJECTIONS, BackboneTraits, backbone_traits
from leap.pipeline import khop
from leap.store.errors import InvalidInputError
from leap.store.registry import _offered

OUTSIDE = """
from torch import nn
from leap.models import Backbone, BackboneTraits


class Flat(nn.Module):
    def __init__(self, dim, directions, thresholds, out_channels):
        super().__init__()
        self.map = nn.Linear(directions * thresholds, out_channels)

    def forward(self, transform):
        return self.map(transform.flatten(1))

class Deep(Backbone):
    traits = BackboneTraits(has_layers=True)

    def __init__(self, in_channels, out_channels, hidden=8, layers=2):
        super().__init__()
        widths = [in_channels, *[hidden] * (layers - 1), out_channels]
        self.maps = nn.Sequential(*(nn.Linear(a, b) for a, b in zip(widths, widths[1:])))

    def forward(self, x, graphs, widen=None):
        return self.maps(x)
"""


@pytest.fixture
def outside(tmp_path, monkeypatch):
    """Install a package that offers the projection `flat` and the backbone `deep`."""
    (tmp_path / "outside_parts.py").write_text(OUTSIDE)
    folder = tmp_path / "outside_parts-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: outside-parts\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        "[leap.projections]\nflat = outside_parts:Flat\n[leap.backbones]\ndeep = outside_parts:Deep\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    _offered.cache_clear()
    yield
    _offered.cache_clear()
    sys.modules.pop("outside_parts", None)
    for registry, name in ((PROJECTIONS, "flat"), (BACKBONES, "deep")):
        registry._loaded.pop(name, None)


def test_names_and_traits_are_known_without_torch():
    lines = [
        "import sys",
        "from leap.models.registries import PROJECTIONS, backbone_traits",
        "assert backbone_traits('gcn').has_layers and 'conv1d' in PROJECTIONS",
        "print([name for name in ('torch', 'numba') if name in sys.modules])",
    ]
    done = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", BACKBONES)
def test_traits_are_those_of_the_class(name):
    made, traits = BACKBONES[name], backbone_traits(name)
    assert issubclass(made, GraphBackbone if traits.looks_at_graphs else Backbone)
    assert issubclass(made, LayeredBackbone) == traits.takes_leap_in_every_layer
    if not traits.looks_at_graphs:
        made_of = make_backbone(name, 3, 2, edge_channels=2 if traits.needs_edges else 0)
        assert hasattr(made_of, "layers") == traits.has_layers


@pytest.mark.parametrize("name", PROJECTIONS)
def test_built_in_projections_are_told_the_directions(name):
    assert issubclass(PROJECTIONS[name], Projection)


def test_an_installed_package_offers_a_projection(outside):
    encoder = LEAP(2, 4, projection="flat")
    assert encoder(torch.randn(3, 2), khop([[0, 1], [1, 2]])).shape == (3, 4)
    assert list(PROJECTIONS)[-1] == "flat"


def test_an_installed_package_offers_a_backbone(outside):
    assert backbone_traits("deep") == BackboneTraits(has_layers=True)
    graphs = GraphBatch(torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 5]), torch.zeros(5, dtype=torch.int64))
    model = make_backbone("deep", 3, 2, layers=3)
    assert len(model.maps) == 3
    assert model(torch.randn(5, 3), graphs).shape == (5, 2)
    with pytest.raises(InvalidInputError, match="deep takes nothing beside its states"):
        make_backbone("deep", 3, 2, extra=1)


def test_a_backbone_is_registered_by_a_decorator():
    try:

        @BACKBONES.register("copying")
        class Copying(Backbone):
            def __init__(self, in_channels: int, out_channels: int) -> None:
                super().__init__()
                self.map = nn.Linear(in_channels, out_channels)

            def forward(self, x: Tensor, graphs: GraphBatch, widen=None) -> Tensor:
                return self.map(x)

        assert isinstance(make_backbone("copying", 3, 2), Copying)
        assert backbone_traits("copying") == BackboneTraits()
        with pytest.raises(InvalidInputError, match="copying has one layer"):
            make_backbone("copying", 3, 2, layers=2)
    finally:
        BACKBONES._loaded.pop("copying", None)


def test_unknown_names_come_with_a_suggestion():
    with pytest.raises(InvalidInputError, match=r"no projection 'conv'.*conv1d"):
        LEAP(2, projection="conv")
    with pytest.raises(InvalidInputError, match=r"no backbone 'gnc'.*gcn"):
        make_backbone("gnc", 3, 2)
