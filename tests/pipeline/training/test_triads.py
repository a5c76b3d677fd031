"""The paper's first experiment: three nodes whose edges only an encoding makes visible at once (section 4.1)."""

import pytest

from leap.pipeline import train


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["leap-f", "leap-l", "rwpe"])
@pytest.mark.parametrize("backbone", ["gcn", "gat"])
def test_encodings_tell_triads_apart(context, options, run, backbone, encoding):
    chosen = options(backbone=backbone, encoding=encoding, epochs=2)
    result = train("triads", chosen, context, run=run)
    assert result.metrics["test"]["accuracy"]["mean"] >= 0.9995
