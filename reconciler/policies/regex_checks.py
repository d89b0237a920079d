"""Regular expressions that can take forever: a repeated group that itself repeats or offers a choice, back references, more than
four repetitions in one expression, and more than 4,096 ways through its `?` and its groups with a choice, a quarter of that for each repetition.

Names come from the cluster, anybody may create one, and Python's matcher backtracks. A plain reading of the text, on the safe
side: it may refuse an expression that would have been harmless, and such an expression can be said without the repeated group.
"""

_MANY = frozenset("*+{")
_MOST = 4
"""Each repetition is one more power of the name's length: four take seconds at worst, five take minutes."""
_MOST_WAYS = 4_096
"""Each `?` doubles the ways to read a name, and a group of three words triples them."""


def can_backtrack(text: str) -> bool:
    """Whether some name may exist on which matching `text` takes longer than anybody waits."""
    repetitions, ways = 0, 1
    groups: list[bool] = []  # per open group: does anything in it repeat or alternate
    choices: list[int] = []  # per open group: how many
    risky = False  # of the group that was closed last, until the next character is read
    before = ""  # the character that was read last; "" where it stands for itself
    index = 0
    while index < len(text):
        char = text[index]
        # after `(` a `?` opens an extension, after a repetition it makes that lazy
        maybe = char == "?" and before not in {"(", "*", "+", "}", "?"}
        if risky and char in _MANY:
            return True
        risky = False
        repetitions += char in _MANY
        ways *= 1 + maybe
        before = char
        match char:
            case "\\":
                if text[index + 1 : index + 2].isdigit() and text[index + 1] != "0":
                    return True
                index += 1
                before = ""
            case "[":
                index = _end_of_set(text, index)
            case "(":
                if text.startswith("(?P=", index) or text.startswith("(?(", index):
                    return True
                groups.append(False)
                choices.append(1)
            case ")" if groups:
                risky = groups.pop()
                ways *= choices.pop()
                if groups and risky:
                    groups[-1] = True
            case "*" | "+" | "{" | "|" if groups:
                groups[-1] = True
                choices[-1] += char == "|"
            case "?" if groups and maybe:
                groups[-1] = True
            case _:
                pass
        index += 1
    return repetitions > _MOST or ways > _MOST_WAYS >> 2 * repetitions


def _end_of_set(text: str, start: int) -> int:
    """Index of the `]` that closes the set opened at `start`; the last index where none does."""
    index = start + 1
    if text.startswith("^", index):
        index += 1
    index += 1  # a `]` in first place stands for itself
    while index < len(text) and text[index] != "]":
        index += 2 if text[index] == "\\" else 1
    return min(index, len(text) - 1)
