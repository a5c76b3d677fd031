from . import reading as reading
from .attach import attach as attach
from .export import StoredDataset as StoredDataset
from .export import to_pyg as to_pyg
from .loader import StreamDataset as StreamDataset
from .loader import to_pyg_batch as to_pyg_batch
from .source import from_pyg as from_pyg
from .transform import AddNeighborhoods as AddNeighborhoods
