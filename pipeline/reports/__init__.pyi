from . import closeup as closeup
from .export import export_report as export_report
from .write import ReportResult as ReportResult
from .write import report as report
