"""Generated capital letters of straight strokes, distorted at three levels: the embedded stand-in for Letter.

Prototypes have as many nodes and strokes as those of the Letter sets (4.33 and 2.8 on average): a node at
each end of a stroke, shared where strokes meet end to end and not where they merely touch or cross.
"""

from dataclasses import dataclass

import numpy as np

from leap.pipeline.datasets.generated import GeneratedFamily, GeneratedSource, embedded_card
from leap.pipeline.graphs import RawGraphs

Point = tuple[float, float]
Stroke = tuple[int, int]

# Letter: its nodes (x to the right, y up) and the strokes between them.
PROTOTYPES: dict[str, tuple[tuple[Point, ...], tuple[Stroke, ...]]] = {
    "A": (((0.6, 0.6), (1.5, 2.9), (2.4, 0.6), (0.9, 1.5), (2.1, 1.5)), ((0, 1), (1, 2), (3, 4))),
    "E": (
        ((2.3, 2.9), (0.7, 2.9), (0.7, 0.6), (2.3, 0.6), (0.7, 1.75), (2.0, 1.75)),
        ((0, 1), (1, 2), (2, 3), (4, 5)),
    ),
    "F": (((2.2, 2.9), (0.7, 2.9), (0.7, 0.6), (0.7, 1.75), (1.8, 1.75)), ((0, 1), (1, 2), (3, 4))),
    "H": (
        ((0.7, 2.9), (0.7, 0.6), (2.3, 2.9), (2.3, 0.6), (0.7, 1.75), (2.3, 1.75)),
        ((0, 1), (2, 3), (4, 5)),
    ),
    "I": (((1.5, 3.0), (1.5, 0.5)), ((0, 1),)),
    "K": (((0.8, 2.9), (0.8, 0.6), (2.1, 2.9), (0.8, 1.75), (2.1, 0.6)), ((0, 1), (2, 3), (3, 4))),
    "L": (((0.8, 2.9), (0.8, 0.6), (2.3, 0.6)), ((0, 1), (1, 2))),
    "M": (((0.5, 0.5), (0.5, 3.0), (1.5, 1.75), (2.5, 3.0), (2.5, 0.5)), ((0, 1), (1, 2), (2, 3), (3, 4))),
    "N": (((0.7, 0.6), (0.7, 2.9), (2.3, 0.6), (2.3, 2.9)), ((0, 1), (1, 2), (2, 3))),
    "T": (((0.6, 2.9), (2.4, 2.9), (1.5, 2.9), (1.5, 0.7)), ((0, 1), (2, 3))),
    "V": (((0.6, 2.9), (1.5, 0.6), (2.4, 2.9)), ((0, 1), (1, 2))),
    "W": (((0.5, 3.0), (1.0, 0.5), (1.5, 2.0), (2.0, 0.5), (2.5, 3.0)), ((0, 1), (1, 2), (2, 3), (3, 4))),
    "X": (((0.5, 3.0), (2.5, 0.5), (2.5, 3.0), (0.5, 0.5)), ((0, 1), (2, 3))),
    "Y": (((0.5, 3.0), (1.5, 1.9), (2.5, 3.0), (1.5, 0.5)), ((0, 1), (1, 2), (1, 3))),
    "Z": (((0.6, 2.9), (2.4, 2.9), (0.6, 0.6), (2.4, 0.6)), ((0, 1), (1, 2), (2, 3))),
}


@dataclass(frozen=True)
class Distortion:
    """How far a letter is bent, fitted to the sizes and spreads of the real Letter sets.

    Attributes
    ----------
    jitter : nodes move by up to this much in each coordinate, uniformly.
    split : chance that a stroke gets a further node near its middle; tried twice for each letter.
    lose : chance that one node is lost together with its strokes.
    remove : chance that one stroke is removed while its nodes stay.
    chord : chance of each further stroke between two nodes not yet joined; tried four times for each letter.
    """

    jitter: float
    split: float
    lose: float
    remove: float
    chord: float


LEVELS = {
    "low": Distortion(jitter=0.125, split=0.18, lose=0.03, remove=0.0, chord=0.0),
    "med": Distortion(jitter=0.5, split=0.18, lose=0.03, remove=0.0, chord=0.02),
    "high": Distortion(jitter=0.65, split=0.18, lose=0.03, remove=0.05, chord=0.4),
}


def letters(level: str, copies: int, seed: int) -> RawGraphs:
    """Distort every letter `copies` times; graph i is a copy of letter i mod 15, in alphabetical order.

    The label is the letter itself; features are the two coordinates.
    """
    distortion = LEVELS[level]
    rng = np.random.Generator(np.random.PCG64(seed))
    labels = list(PROTOTYPES) * copies
    counts: list[int] = []
    points: list[Point] = []
    strokes: list[Stroke] = []
    first = 0
    for label in labels:
        nodes, edges = _distort(*PROTOTYPES[label], distortion, rng)
        counts.append(len(nodes))
        points.extend(nodes)
        strokes.extend((first + a, first + b) for a, b in edges)
        first += len(nodes)
    return RawGraphs(
        node_counts=np.array(counts, dtype=np.int64),
        edges=np.ascontiguousarray(np.array(strokes, dtype=np.int64).T),
        x=np.array(points, dtype=np.float32),
        y=np.array(labels),
        task="graph-classification",
        feature_source="coordinates",
    )


def _distort(
    nodes: tuple[Point, ...], strokes: tuple[Stroke, ...], by: Distortion, rng: np.random.Generator
) -> tuple[list[Point], list[Stroke]]:
    def happens(chance: float) -> bool:
        return rng.random() < chance

    def pick(count: int) -> int:
        return int(rng.random() * count)

    points, edges = list(nodes), list(strokes)
    for _ in range(2):
        if happens(by.split):
            a, b = edges.pop(pick(len(edges)))
            points.append(((points[a][0] + points[b][0]) / 2.0, (points[a][1] + points[b][1]) / 2.0))
            edges += [(a, len(points) - 1), (b, len(points) - 1)]
    for _ in range(4):
        absent = [
            (a, b)
            for a in range(len(points))
            for b in range(a + 1, len(points))
            if (a, b) not in edges and (b, a) not in edges
        ]
        if happens(by.chord) and absent:
            edges.append(absent[pick(len(absent))])
    if happens(by.remove) and len(edges) > 1:
        edges.pop(pick(len(edges)))
    if happens(by.lose):
        lost = pick(len(points))
        points.pop(lost)
        edges = [(a - (a > lost), b - (b > lost)) for a, b in edges if lost not in (a, b)]
    moved = [
        (x + by.jitter * (2.0 * rng.random() - 1.0), y + by.jitter * (2.0 * rng.random() - 1.0)) for x, y in points
    ]
    return moved, edges


_NODES = {"low": 10_469, "med": 10_487, "high": 10_508}
FAMILY = GeneratedFamily(
    *(
        GeneratedSource(
            embedded_card(f"letters-{level}", stand_in_for=f"Letter-{level}", size=(2_250, _NODES[level])),
            1,
            {"level": level, "copies": 150, "seed": 100 + i},
            letters,
        )
        for i, level in enumerate(LEVELS)
    )
)
