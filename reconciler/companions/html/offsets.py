"""Collects the rulers of a plan: the offsets of each partition that loses records, equal ones together."""

import re
from collections.abc import Hashable, Sequence

from reconciler.companions.html.figures import Move, TopicRulers, slug
from reconciler.report.tree import cause_of
from reconciler.text import formatting
from reconciler.text.phrase import name, strong

RULERS_MAX = 50
"""Partitions of one topic that are drawn; of more, only the worst ones."""
WORST = 10
"""Partitions that are drawn of a topic with more than RULERS_MAX."""


def topic_rulers(topic: str, moves: Sequence[Move]) -> TopicRulers:
    """Return the rulers of one topic, the worst first: those whose groups skip most, then by what is removed."""
    worst = sorted(moves, key=lambda move: (-sum(s[2] for s in move[1].skips), -move[1].removed, move[0].address))
    drawn = worst if len(worst) <= RULERS_MAX else worst[:WORST]
    removed = sum(move.removed for _action, move in moves)
    return TopicRulers(
        anchor=f"offsets-{slug(topic)}",
        subject=(name(topic), ": ", strong(formatting.count(removed, noun_of(moves))), " removed at most"),
        rulers=tuple(_alike(drawn)),
        amounts=tuple(move.removed for _action, move in moves),
    )


def noun_of(moves: Sequence[Move]) -> str:
    """Return what is counted: offsets, where not all of them are records."""
    return max((move.noun for _action, move in moves), key="offset".__eq__)


def _alike(moves: Sequence[Move]) -> Sequence[Sequence[Move]]:
    """Return the moves that one picture shows together: of one look, and of about the same size.

    A bar shows shares, so that half of ten records looks like half of ten million.
    """
    groups: list[list[Move]] = []
    newest: dict[Hashable, list[Move]] = {}
    for move in moves:
        look, removed = _look(move), move[1].removed
        same = newest.get(look)
        if same is None or not same[0][1].removed <= 2 * removed <= 4 * same[0][1].removed:
            same = newest[look] = []
            groups.append(same)
        same.append(move)
    return groups


def _look(move: Move) -> Hashable:
    """Return what a ruler shows, to a twentieth of its width, and its text without numbers."""
    action, offsets = move
    total = offsets.high_watermark - offsets.log_start

    def place(offset: int) -> int:
        return round(20 * (offset - offsets.log_start) / total) if total else 0

    reason = re.sub("[0-9][0-9,]*", "#", cause_of(action.reason, action.address))
    ends = place(offsets.new_start), place(offsets.last_stable_offset), offsets.noun
    groups = tuple((group, place(max(committed, offsets.log_start))) for group, committed, _skipped in offsets.skips)
    return action.address.policy_address, reason, ends, groups, offsets.required
