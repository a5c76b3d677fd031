from . import kernels as kernels
from .encoder import LEAP as LEAP
from .transform import Statistics as Statistics
from .transform import dect as dect
