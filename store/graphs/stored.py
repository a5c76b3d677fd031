"""Neighbourhoods and encodings as they are stored: the names of their arrays, and which nodes' rows lie where."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from leap.store.artifact import Artifact
from leap.store.errors import InvalidInputError
from leap.store.graphs.neighborhoods import Neighborhoods
from leap.store.graphs.ragged import Array, Ids, overlap


class Stored(Artifact):
    """An artifact with rows for all nodes of a dataset; each partition has those of a range of nodes."""

    NOUN: ClassVar[str]  # what it is, in messages

    @cached_property
    def node_ranges(self) -> Ids:
        """First node of each partition, and the end of the last."""
        return np.array([0, *(part.node_hi for part in self.partitions)], np.int64)

    @classmethod
    def of(cls, artifact: Artifact) -> Self:
        """Return the artifact if it is of this type.

        Raises
        ------
        InvalidInputError
            If it is something else.
        """
        if not isinstance(artifact, cls):
            raise InvalidInputError(
                f"{cls.NOUN} is needed, an artifact such as store.find(kind, name) returns. Got {artifact!r}."
            )
        return artifact

    def check_made_from(self, dataset: Artifact) -> None:
        """Raise InvalidInputError unless the rows are of the nodes of this dataset."""
        if self.manifest.source != dataset.manifest.content:
            raise InvalidInputError(f"{self!r} was not made from {dataset!r}, so its rows are of other nodes.")


class HoodRows(NamedTuple):
    """Neighbourhoods of some nodes with dataset-wide ids, and the statistics of each."""

    hoods: Neighborhoods
    mean: Array | None
    scale: Array | None

    def nbytes(self) -> int:
        """Bytes of all arrays."""
        hoods = self.hoods
        arrays = (hoods.node_ptr, hoods.nodes, hoods.edge_ptr, hoods.edges, self.mean, self.scale)
        return sum(int(array.nbytes) for array in arrays if array is not None)


class StoredNeighborhoods(Stored):
    """The neighbourhoods of all nodes of a dataset and, for real-valued features, the mean and scale of each."""

    KIND, NOUN = "neighborhoods", "a set of neighbourhoods"

    @staticmethod
    def arrays(hoods: Neighborhoods, mean: Array | None = None, scale: Array | None = None) -> dict[str, Array]:
        """Return what a partition holds: neighbourhoods with dataset-wide ids, and the statistics of each node."""
        named = {"node_ptr": hoods.node_ptr, "edge_ptr": hoods.edge_ptr, "mean": mean, "scale": scale}
        named |= {"nodes": hoods.nodes, "edges": hoods.edges}
        return {name: array for name, array in named.items() if array is not None}

    @cached_property
    def hops(self) -> int:
        """Hop count."""
        return int(self.params["hops"])

    @cached_property
    def cap(self) -> int | None:
        """Largest number of members, None without a limit."""
        cap: int | None = self.params["cap"]
        return cap

    @property
    def members(self) -> int:
        """Members of all neighbourhoods together."""
        return int(self.manifest.summary["memberships"])

    @property
    def edges(self) -> int:
        """Edges of all neighbourhoods together."""
        return int(self.manifest.summary["edges"])

    def rows(self, partition: int, *, with_stats: bool = True) -> HoodRows:
        """Return the neighbourhoods of one partition; statistics where they are stored."""
        names = ["node_ptr", "nodes", "edge_ptr", "edges"]
        stats = [name for name in ("mean", "scale") if with_stats and self.has(name)]
        found = self.read(partition, [*names, *stats])
        node_ptr, nodes, edge_ptr, edges = (found[name] for name in names)
        hoods = Neighborhoods(node_ptr, nodes, edge_ptr, edges, self.hops, self.cap)
        return HoodRows(hoods, found.get("mean"), found.get("scale"))

    def between(self, low: int, high: int, rows: Callable[[int], HoodRows] | None = None) -> HoodRows:
        """Return the neighbourhoods of the nodes low…high-1.

        Parameters
        ----------
        rows : reads a partition; for callers that remember partitions or want no statistics.
        """
        pieces = []
        for part, begin, end in overlap(self.node_ranges, low, high):
            hoods, mean, scale = (rows or self.rows)(part)
            cut = slice(begin, end)
            whole = begin == 0 and end == hoods.num_nodes
            inside = hoods if whole else hoods.select(begin, end, shift=0)
            pieces.append(HoodRows(inside, None if mean is None else mean[cut], None if scale is None else scale[cut]))
        if len(pieces) == 1:
            return pieces[0]
        return HoodRows(
            Neighborhoods.concat([piece.hoods for piece in pieces], renumber=False),
            _joined([piece.mean for piece in pieces if piece.mean is not None]),
            _joined([piece.scale for piece in pieces if piece.scale is not None]),
        )

    def neighborhoods(self, partition: int | None = None) -> Neighborhoods:
        """Return the neighbourhoods of one partition, or of the whole dataset, with dataset-wide node ids."""
        if partition is not None:
            return self.rows(partition, with_stats=False).hoods
        nodes = int(self.node_ranges[-1])
        return self.between(0, nodes, lambda part: self.rows(part, with_stats=False)).hoods


class StoredEncoding(Stored):
    """Numbers that describe each node; a view shows the first columns of an encoding with more."""

    NOUN = "an encoding"
    _VALUES, _SPECTRUM = "encoding", "eigenvalues"

    @classmethod
    def arrays(cls, values: Array, spectrum: Array | None = None) -> dict[str, Array]:
        """Return what a partition holds: (n, …) values of its nodes and, for LaPE, eigenvalues of its graphs."""
        return {cls._VALUES: values} | ({} if spectrum is None else {cls._SPECTRUM: spectrum})

    @classmethod
    def check(cls, arrays: Mapping[str, Array], nodes: int, columns: int) -> None:
        """Raise InvalidInputError unless these arrays give each node so many finite numbers."""
        values = np.asarray(arrays.get(cls._VALUES))
        width = int(np.prod(values.shape[1:]))
        if values.dtype.kind not in "iuf" or values.ndim < 2 or (len(values), width) != (nodes, columns):
            raise InvalidInputError(
                f"it must be numbers of shape ({nodes}, {columns}). Got {values.dtype} of shape {values.shape}."
            )
        if not np.isfinite(values).all():
            raise InvalidInputError("it must be finite, and some numbers are not.")

    def read(self, partition: int, names: Iterable[str] | None = None) -> dict[str, NDArray[Any]]:
        """Return arrays of one partition as `Artifact.read` does, cut to the columns of a view."""
        found = super().read(partition, names)
        for name in {self._VALUES, self._SPECTRUM} & found.keys() if self.dim is not None else ():
            found[name] = found[name][:, : self.dim]
        return found

    def values(self) -> Array:
        """Return the encoding of all nodes."""
        return self.load(self._VALUES)

    def between(self, low: int, high: int) -> Array:
        """Return the encoding of the nodes low…high-1, contiguous."""
        pieces = [
            self.read(part, [self._VALUES])[self._VALUES][begin:end]
            for part, begin, end in overlap(self.node_ranges, low, high)
        ]
        return np.ascontiguousarray(_joined(pieces))

    @property
    def row_shape(self) -> tuple[int, ...]:
        """Shape of the encoding of one node."""
        shape = self.shape(self._VALUES)[1:]
        return shape if self.dim is None else (self.dim, *shape[1:])


def _joined(pieces: list[Array]) -> Any:
    return None if not pieces else pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
