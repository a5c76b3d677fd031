"""Generated datasets that stand in for real ones; their numbers are never those of the real ones."""

STAND_INS = {
    "letters-low": "Letter-low",
    "letters-med": "Letter-med",
    "letters-high": "Letter-high",
    "romanesque": "roman-empire",
}
