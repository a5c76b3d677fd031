from . import neighborhood as neighborhood
from .write import ReportResult as ReportResult
from .write import report as report
