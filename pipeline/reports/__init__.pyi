from . import closeup as closeup
from .write import ReportResult as ReportResult
from .write import report as report
