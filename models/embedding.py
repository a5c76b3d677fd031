"""Embeddings of categorical features of nodes and edges, half as wide as each has distinct values."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from leap.models.rows import Rows
from leap.store.errors import InvalidInputError

LEARNED_HIDDEN = 16
LEARNED_DIM = 3


class CategoricalEmbedding(nn.Module):
    """Give each column of codes a learned vector and put the vectors side by side.

    Parameters
    ----------
    codes : for each column its distinct values, ascending; they need not be consecutive. A column with c values gets
        c // 2 dimensions, so that one that is constant gets none.
    noun : what a column is called in messages.

    Examples
    --------
    >>> embed = CategoricalEmbedding([(1, 6, 7, 8), (0,), (0, 1)])
    >>> embed(torch.tensor([[6, 0, 1], [8, 0, 0]])).shape
    torch.Size([2, 3])
    """

    lookup: Tensor
    starts: Tensor

    def __init__(self, codes: Sequence[Sequence[int]], noun: str = "feature") -> None:
        super().__init__()
        self.noun = noun
        widths = [len(values) // 2 for values in codes]
        if not any(widths):
            widths[0] = 1  # something has to be said about a node
        self.columns = [column for column, width in enumerate(widths) if width]
        self.tables = nn.ModuleList(nn.Embedding(len(codes[c]), widths[c]) for c in self.columns)
        self.out_channels = sum(widths)
        spans = [(max(values) + 1 if len(values) else 1) for values in codes]
        lookup = torch.full((sum(spans),), -1, dtype=torch.int64)
        starts = torch.tensor([0, *spans[:-1]]).cumsum(0)
        for start, values in zip(starts.tolist(), codes, strict=True):
            lookup[start + torch.tensor(list(values), dtype=torch.int64)] = torch.arange(len(values))
        self.register_buffer("lookup", lookup)
        self.register_buffer("starts", starts)
        self.register_buffer("spans", torch.tensor(spans))

    def forward(self, x: Tensor, rows: Rows | None = None) -> Tensor:
        """Map (N, columns) codes to (N, out_channels); `rows` says which belong to which network of a stack."""
        assert isinstance(self.spans, Tensor)
        is_known = (x >= 0) & (x < self.spans)
        places = torch.where(is_known, self.lookup[torch.where(is_known, x, 0) + self.starts], -1)
        if x.device.type == "cpu" and len(places) and int(places.min()) < 0:  # others look after their indices
            node, column = (places < 0).nonzero()[0].tolist()
            raise InvalidInputError(
                f"categorical {self.noun} {column} has the value {int(x[node, column])}, which was not among the "
                "values that the network was made for."
            )
        owners = 0 if rows is None else rows.owners(x.device)
        vectors = []
        for column, table in zip(self.columns, self.tables, strict=True):
            weight = table.weight  # (values, width), in a stack one table below the other
            assert isinstance(weight, Tensor)
            chosen = places[:, column] + owners * weight.shape[-2]
            vectors.append(nn.functional.embedding(chosen, weight.reshape(-1, weight.shape[-1])))
        return torch.cat(vectors, dim=1)


def learned_coordinates(in_channels: int) -> nn.Sequential:
    """Return the MLP that maps embedded features to points in R³, where LEAP looks at them."""
    return nn.Sequential(nn.Linear(in_channels, LEARNED_HIDDEN), nn.ReLU(), nn.Linear(LEARNED_HIDDEN, LEARNED_DIM))
