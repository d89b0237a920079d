"""Reports of manifests, plans, comparisons, drift, results, explanations, journals and suggestions.

A builder makes the tree of a document, a writer lays any tree out: `write_lines(plan_report(plan))`.
document.py holds the kinds of documents and the formats of each.
Neither computes anything that apply would read, and neither knows the clock or the terminal.
"""
