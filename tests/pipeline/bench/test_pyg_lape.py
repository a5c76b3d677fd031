from pathlib import Path

import numpy as np

from leap.pipeline.bench.pyg_lape import stopped_lape_seconds
from tests.processes import PATIENCE_SECONDS


def cycle(length: int) -> np.ndarray:
    nodes = np.arange(length)
    following = (nodes + 1) % length
    return np.stack([np.concatenate([nodes, following]), np.concatenate([following, nodes])])


def test_a_peer_that_finishes_in_time_is_timed(tmp_path: Path) -> None:
    seconds, is_stopped = stopped_lape_seconds(cycle(60), 60, 3, PATIENCE_SECONDS, tmp_path)
    assert not is_stopped
    assert seconds > 0


def test_a_peer_that_takes_too_long_is_stopped_there(tmp_path: Path) -> None:
    seconds, is_stopped = stopped_lape_seconds(cycle(300_000), 300_000, 10, 0.0, tmp_path)
    assert is_stopped
    assert seconds >= 0
