"""Sentences for whoever asked for own data: what was left aside, and which option takes it."""

from collections.abc import Sequence


def left_out_for_x(noun: str, names: Sequence[str], taken: str) -> str:
    """Tell of node attributes or columns that are no features because there is `taken`."""
    are = f"{noun} {names[0]!r} is" if len(names) == 1 else f"{noun}s {', '.join(names)} are"
    return f"node {are} left out, because there is {taken!r}; --node-attribute NAME chooses others."


def unlabelled(noun: str, names: Sequence[str]) -> str:
    """Tell of graph attributes or columns that could be the label."""
    if len(names) == 1:
        return f"graphs have no label; --graph-label {names[0]} would take the graph {noun} {names[0]!r}."
    return f"graphs have no label; --graph-label NAME would take one of the graph {noun}s {', '.join(names)}."
