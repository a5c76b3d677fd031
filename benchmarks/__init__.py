"""LEAP against what one writes without it, measured within one run: `make bench`, or `python -m benchmarks PART …`.

A part is a generator of measurements. The rivals live in `rivals`; each is checked to compute the same before it is
timed.
"""
