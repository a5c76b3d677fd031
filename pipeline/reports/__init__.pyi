from . import closeup as closeup
from .answer import Answer as Answer
from .export import export_report as export_report
from .folder import refuse_unwritable as refuse_unwritable
from .write import ReportResult as ReportResult
from .write import answers as answers
from .write import report as report
