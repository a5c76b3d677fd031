"""An executor for readers with heavy parsing: it employs workers only when first asked to do something."""

from collections.abc import Callable, Iterable
from typing import Any

from leap.pipeline.cluster import Workforce, employ


class OnDemandExecutor:
    """`map` over the workforce, in order.

    Parameters
    ----------
    seconds_an_item : rough cost of one item, to decide whether a cluster is worth starting.
    """

    def __init__(self, workforce: Workforce, seconds_an_item: float = 1.0) -> None:
        self._workforce = workforce
        self._seconds = seconds_an_item

    def map(self, fn: Callable[[Any], Any], items: Iterable[Any], /) -> list[Any]:
        """Return `fn(item)` for each item, in the order of the items."""
        numbered = [(fn, index, item) for index, item in enumerate(items)]
        results: dict[int, Any] = {}
        with employ(self._workforce, len(numbered), self._seconds * len(numbered)) as runner:
            runner.run(_numbered, numbered, lambda pair: results.__setitem__(*pair))
        return [results[index] for index in range(len(numbered))]


def _numbered(fn: Callable[[Any], Any], index: int, item: Any) -> tuple[int, Any]:
    return index, fn(item)
