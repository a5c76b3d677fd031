"""Pictures of a report: numbers in, a matplotlib figure out."""
