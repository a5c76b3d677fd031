"""The `leap` command: thin typer commands, one file for each stage."""
