"""Nothing is shown of what follows where a secret might begin, whatever YAML makes of the line: key, text, comment or nothing at all.

A forgotten blank makes property and secret one key, a forgotten colon makes them one text. Every repetition is bounded: the text may come from
anybody's pull request.
"""

import re

_REFERENCE = r"""\s{0,64}["']?\$\{[^}$]{0,256}\}["']?\s{0,64}(?:$|[,}#])"""
_NAMED = r"(?:password|passphrase|secret|credential|key\.pem|ssl\.key|token|basic\.auth|oauthbearer\.config)[^\s:=]{0,64}\s{0,64}[:=]"
_PROPERTY = (
    r"""(?:sasl|ssl)\.[a-z.]{0,64}(?:password|passphrase|secret|credentials?|pem|key|token|config)(?:[\s,"']|\\["'])"""
)

LOOKS_SECRET = re.compile(rf"(?i)(?:{_NAMED}|{_PROPERTY})(?!{_REFERENCE})|://[^/\s]{{0,1024}}@")
"""Up to where a secret might begin. A word that sounds like one needs a colon after it; a property of the library does not."""
VEILED = re.compile(r"""[\s:="',]{0,64}\*{1,65536}["']?\s{0,64}(?:$|[,}])""")


def redact(line: str) -> str:
    """The line, as long as it was, with stars for what may be a secret. Lines that are not about secrets stay as they are."""
    for found in LOOKS_SECRET.finditer(line):
        if not VEILED.match(line, found.end()):
            return line[: found.end()] + re.sub(r"\S", "*", line[found.end() :])
    return line
