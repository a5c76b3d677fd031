"""The report: published numbers, statistics, tables, figures and one page to look at.

`report` is imported when first used, so that the published numbers alone cost nothing.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from leap.pipeline.report.write import ReportResult, report

__all__ = ["ReportResult", "report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from leap.pipeline.report import write

    return getattr(write, name)
