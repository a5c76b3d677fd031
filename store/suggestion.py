"""Did you mean …? A known name for one that was mistyped."""

import difflib
from collections.abc import Iterable


def suggestion(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for a name that resembles a known one, else nothing."""
    folded: dict[str, str] = {}
    for candidate in known:
        folded.setdefault(candidate.lower(), candidate)
    similar = difflib.get_close_matches(name.lower(), folded, n=1, cutoff=0.6)
    return f" Did you mean {folded[similar[0]]!r}?" if similar else ""


def alternatives(name: str, known: Iterable[str]) -> str:
    """Return what there is instead of an unknown name: " Did you mean 'b'? There are a, b."."""
    names = sorted(known)
    return f"{suggestion(name, names)} There {'is only' if len(names) == 1 else 'are'} {', '.join(names) or 'none'}."
