"""Every stored encoding trains by its name, beside LEAP, and as the coordinates that LEAP looks at."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from leap.models.registries import ENCODINGS
from leap.pipeline import train


@pytest.mark.parametrize("use", ["{}", "{}+leap-l", "leap-l on {}"])
@pytest.mark.parametrize("name", [name for name in ENCODINGS if name not in ("rwpe", "lape", "lect")])
def test_an_encoding_trains_alone_beside_leap_and_below_it(context, options, shapes, run, name, use):
    encoding, _, below = use.format(name).partition(" on ")
    chosen = options(backbone="gcn", encoding=encoding, epochs=2, **({"leap_on": below} if below else {}))
    result = train(shapes, chosen, context, run=run)
    assert np.isfinite(pq.read_table(run / "curves.parquet")["train_loss"].to_numpy()).all()
    assert name in {entry["kind"] for entry in result.metrics["keys"]}
