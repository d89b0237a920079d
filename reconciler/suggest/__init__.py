"""Suggests first policies for a cluster: findings of one scan, ranked, with manifests to review.

`rules` finds, `findings` holds what was found, `drafts` writes manifests. All of it is pure.
"""
