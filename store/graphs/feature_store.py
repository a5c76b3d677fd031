"""`Store`: the artifact store whose artifacts are stored graphs and what was derived from them."""

from leap.store.artifact import Artifact
from leap.store.graphs.dataset import StoredGraphs
from leap.store.graphs.stored import StoredEncoding, StoredNeighborhoods
from leap.store.manifest import Manifest
from leap.store.store import ArtifactStore


class Store(ArtifactStore):
    """A feature store: immutable artifacts under content-addressed keys, each with the methods of what it holds.

    Examples
    --------
    >>> import tempfile
    >>> store = Store.open(tempfile.mkdtemp())
    >>> store.list()
    []
    """

    def typed(self, manifest: Manifest) -> Artifact:
        """Return a dataset, neighbourhoods or, for all other kinds, an encoding."""
        kinds: dict[str, type[Artifact]] = {kind.KIND: kind for kind in (StoredGraphs, StoredNeighborhoods)}
        return kinds.get(manifest.kind, StoredEncoding)(self.location, manifest)
