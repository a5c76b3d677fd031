"""`python -m leap`: the command line."""

from leap.cli.main import main

main()
