"""A generated text-like chain with local arcs, the embedded stand-in for the size and shape of roman-empire.

Nodes are words in order; a class is a word's role. Roles follow one another by preference, arcs prefer to
join roles that go together, and a word admits two roles: features narrow the role down, the neighbourhood
decides it.
"""

import numpy as np
from numpy.typing import NDArray

from leap.pipeline.datasets.generated import GeneratedFamily, GeneratedSource, embedded_card
from leap.pipeline.folds import node_masks
from leap.pipeline.graphs import RawGraphs

_FOLLOW = 0.75  # chance that a role is followed by one of its three preferred roles
_MAIN_ROLE = 0.7  # chance that a word plays the first of its two roles
_RELATED = 4.0  # how much likelier an arc is between roles that go together
_LONGEST_ARC = 12


def romanesque(nodes: int, edges: int, features: int, classes: int, words: int, seed: int) -> RawGraphs:
    """Generate one connected graph: a chain of `nodes` words and local arcs up to `edges` in all.

    Masks are 50/25/25 for ten splits.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    follow = _distinct(rng, classes, 3)
    related = rng.random((classes, classes)) < 0.2
    labels = _roles(rng, nodes, follow)
    arcs = _arcs(rng, labels, related, edges - (nodes - 1))
    chain = np.arange(nodes - 1, dtype=np.int64)
    return RawGraphs(
        node_counts=np.array([nodes], dtype=np.int64),
        edges=np.concatenate([np.stack([chain, chain + 1]), arcs], axis=1),
        x=_word_vectors(rng, words, classes, features)[_words(rng, labels, words, classes)],
        y=labels,
        task="node-classification",
        masks=node_masks(labels, seed=seed, splits=10),
        feature_source="word vectors",
    )


def _distinct(rng: np.random.Generator, classes: int, count: int) -> NDArray[np.int64]:
    """(classes, count) distinct classes for each class, itself excluded: like roles seldom follow each other."""
    keys = rng.random((classes, classes))
    keys[np.arange(classes), np.arange(classes)] = 2.0
    return np.argsort(keys, axis=1, kind="stable")[:, :count]


def _roles(rng: np.random.Generator, nodes: int, follow: NDArray[np.int64]) -> NDArray[np.int64]:
    classes = len(follow)
    weights = 1.0 / (1.0 + np.arange(classes))  # a few roles are common, most are rare
    upto = np.cumsum(weights)
    anywhere = np.searchsorted(upto[:-1] / upto[-1], rng.random(nodes)).tolist()
    prefers = (rng.random(nodes) < _FOLLOW).tolist()
    choice = (rng.random(nodes) * follow.shape[1]).astype(np.int64).tolist()
    table, roles = follow.tolist(), [anywhere[0]]
    for i in range(1, nodes):
        roles.append(table[roles[-1]][choice[i]] if prefers[i] else anywhere[i])
    return np.array(roles, dtype=np.int64)


def _arcs(
    rng: np.random.Generator, labels: NDArray[np.int64], related: NDArray[np.bool_], count: int
) -> NDArray[np.int64]:
    """Draw (2, count) distinct arcs over 2 to `_LONGEST_ARC` words, short ones and related roles preferred."""
    lengths = np.arange(2, _LONGEST_ARC + 1)
    first = np.repeat(np.arange(len(labels), dtype=np.int64), len(lengths))
    last = first + np.tile(lengths, len(labels))
    inside = last < len(labels)
    first, last = first[inside], last[inside]
    weight = np.where(related[labels[first], labels[last]], _RELATED, 1.0) / (last - first)
    # Smallest of "uniform / weight" is a draw without replacement that favours heavy arcs.
    chosen = np.sort(np.argsort(rng.random(len(first)) / weight, kind="stable")[:count])
    return np.stack([first[chosen], last[chosen]])


def _word_vectors(rng: np.random.Generator, words: int, classes: int, features: int) -> NDArray[np.float32]:
    """(words, features): the sum of a vector for the word's first role and one of its own."""
    centres = rng.random((classes, features)) - 0.5
    own = rng.random((words, features)) - 0.5
    return (0.3 * centres[np.arange(words) % classes] + own).astype(np.float32)


def _words(rng: np.random.Generator, labels: NDArray[np.int64], words: int, classes: int) -> NDArray[np.int64]:
    """Draw a word for each role: word w plays role w mod classes first and the next role second."""
    main = rng.random(len(labels)) < _MAIN_ROLE
    role = np.where(main, labels, (labels - 1) % classes)
    return role + classes * (rng.random(len(labels)) * (words // classes)).astype(np.int64)


FAMILY = GeneratedFamily(
    GeneratedSource(
        embedded_card("romanesque", stand_in_for="roman-empire", size=(1, 22_662), edges=32_927),
        1,
        {"nodes": 22_662, "edges": 32_927, "features": 300, "classes": 18, "words": 4_500, "seed": 42},
        romanesque,
    )
)
