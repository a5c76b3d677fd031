"""Stages of preprocessing (ingest, extract, encode), the one way to make an artifact, and what a stage reports."""
