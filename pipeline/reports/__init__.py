"""The report: published numbers, statistics, tables, figures and one page to look at."""
