"""Block codes: the table has each and no unused one; a reason becomes a decision."""

import re
from pathlib import Path

import reconciler
from reconciler.model.block_reason import BLOCK_CODES, BlockReason, Origin, origin_of, unknown_fact
from reconciler.model.names import Address, SourceLocation
from reconciler.model.plan import Blocked, Skipped
from reconciler.model.snapshot import Unknown
from reconciler.text.escape import NEXT

ADDRESS, PLACE = Address("RetentionFloor", "gdpr", "orders", 0), SourceLocation("floors.yaml", 9, 1)
SOURCES = [
    path
    for folder in ("model", "policies", "operations", "plan")
    for path in (Path(reconciler.__file__).parent / folder).rglob("*.py")
]


def test_the_table_has_exactly_the_codes_that_are_used() -> None:
    """`explain CODE` has a text for each code of a plan."""
    used = {
        code
        for path in SOURCES
        for code in re.findall(r'(?:code=|SILENT = |\b(?:BlockReason|unread)\(\s*)"(B[0-9]{3})"', path.read_text())
    }
    assert used == set(BLOCK_CODES)


def test_codes_are_in_order_and_have_plain_texts() -> None:
    assert list(BLOCK_CODES) == sorted(BLOCK_CODES)
    for code, reason in BLOCK_CODES.items():
        assert re.fullmatch(r"B[1-9][0-9]{2}", code)
        assert reason.title
        assert not reason.title.endswith(".")
        assert reason.explanation.endswith(".")
        assert len(reason.explanation.split()) > 15
    assert BLOCK_CODES["B204"].title == "another group is behind the floor"


def test_codes_have_a_next_step_unless_it_depends_on_the_subject() -> None:
    """The planner words the next step of these codes: it names the policies or the numbers."""
    assert {code for code, reason in BLOCK_CODES.items() if not reason.next_step} == {"B105", "B107", "B306"}


def test_each_code_has_its_origin() -> None:
    """It decides between blocked, not attempted and stale; all others are of the cluster."""
    by_origin = {origin: [code for code in BLOCK_CODES if origin_of(code) is origin] for origin in Origin}
    assert " ".join(by_origin[Origin.MANIFESTS]) == "B105 B106 B107 B201 B210 B214 B215 B302 B305 B306"
    assert by_origin[Origin.UNREAD] == ["B103", "B104", "B109", "B203"]


def test_a_block_reason_becomes_blocked_or_skipped() -> None:
    """A match of a pattern is skipped with the same reason, unless a fact is unread."""
    plain = BlockReason(code="B999", reason="because", next_step="do")
    unread = BlockReason(code="B999", reason="because", next_step="do", unread=True)
    as_blocked = Blocked(address=ADDRESS, declared_at=PLACE, code="B999", reason="because", next_step="do")
    assert plain.blocked(ADDRESS, PLACE) == as_blocked
    assert plain.blocked_or_skipped(ADDRESS, PLACE, exact=True) == as_blocked
    assert plain.blocked_or_skipped(ADDRESS, PLACE, exact=False) == Skipped(
        address=ADDRESS, code="B999", reason="because"
    )
    assert isinstance(unread.blocked_or_skipped(ADDRESS, PLACE, exact=False), Blocked)
    assert unread.blocked(ADDRESS, PLACE).unread


def test_a_fact_that_says_what_to_do_is_the_next_step() -> None:
    """`… cannot be read. Next: see with doctor … (B103). Next: see that all brokers are up` had two of them."""
    reason = unknown_fact("the last purge", Unknown(f"the journal cannot be read{NEXT}create its topic"))
    assert (reason.reason, reason.next_step) == (
        "the last purge could not be read: the journal cannot be read",
        "create its topic",
    )
