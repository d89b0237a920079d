"""Suggests first policies for a cluster: findings of one scan, ranked, with manifests to review.

`facts` says who reads what, `rules` and `cluster_rules` find, `findings` holds the findings, and
`drafts` writes manifests. All of it is pure.
"""
