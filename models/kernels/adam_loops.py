"""Adam's update as one loop over the parameters of several networks."""

from typing import Any

import numpy as np

from leap.models.kernels.compiling import kernel
from leap.models.kernels.lanes import array_at


@kernel(error_model="numpy")
def adam_update(
    parameters: int,
    gradients: int,
    averages: int,
    squares: int,
    count: int,
    betas: tuple[float, float],
    eps: float,
    rates: Any,
    roots: Any,
) -> None:
    """Update parameters and moments in place, float32 (S, count) each, given by address.

    Every element is rounded alone, so its bits do not depend on where it stands.

    Parameters
    ----------
    rates : (S,) rate of each network, corrected for the bias of its averages.
    roots : (S,) by what the roots of its squares are divided.
    """
    shape = (len(rates), count)
    p, g, m, v = (
        array_at(parameters, shape),
        array_at(gradients, shape),
        array_at(averages, shape),
        array_at(squares, shape),
    )
    new, old_square, new_square = np.float32(1.0 - betas[0]), np.float32(betas[1]), np.float32(1.0 - betas[1])
    least = np.float32(eps)
    for i in range(len(rates)):
        rate, root = np.float32(rates[i]), np.float32(roots[i])
        for j in range(count):
            m[i, j] += new * (g[i, j] - m[i, j])
            v[i, j] = old_square * v[i, j] + new_square * (g[i, j] * g[i, j])
            p[i, j] -= rate * (m[i, j] / (np.sqrt(v[i, j]) / root + least))
