from . import app as app
from . import output as output
