"""Reports of manifests, plans, comparisons, drift, results, explanations, journals and suggestions.

A builder makes the tree of a document, a writer lays any tree out: `write_lines(plan_report(plan))`.
Neither computes anything that apply would read, and neither knows the clock or the terminal.
"""
