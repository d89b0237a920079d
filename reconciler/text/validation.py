"""Says in plain words what Python and the validation library say of a wrong value or file; checks addresses."""

import re
from urllib.parse import urlsplit

_RULES = tuple(
    (re.compile(pattern), words)
    for pattern, words in (
        (r"(?:Value|Assertion) error, (.+)", r"\1"),
        (r"Input should be a valid (?:number|decimal)\b.*", "expected a number"),
        (r"Input should be a valid integer\b.*", "expected a whole number"),
        (r"Input should be a valid string\b.*", "expected text"),
        (r"Input should be a valid boolean\b.*", "expected true or false"),
        (r"Input should be a valid (?:list|tuple|array)\b.*", "expected a list"),
        (r"Input should be (?:a valid dictionary|an object)\b.*", "expected an object"),
        (r"Input should be None", "expected no value"),
        (r"Input should be greater than or equal to (.+)", r"expected at least \1"),
        (r"Input should be less than or equal to (.+)", r"expected at most \1"),
        (r"Input should be greater than (.+)", r"expected more than \1"),
        (r"Input should be less than (.+)", r"expected less than \1"),
        (r"Unable to extract tag using discriminator '?(.+?)'?(?:\(\))?", r"the field \1 is missing"),
        (r"(?:Input|String|List|Tuple|Data|Value) should (?:be |have |match )?(.+)", r"expected \1"),
        (r"Extra inputs are not permitted|Unexpected keyword argument", "an unknown field"),
        (r"Field required|Missing required .*argument", "the field is missing"),
    )
)


def is_https_address(text: str) -> bool:
    """Whether a text is an address of a host by https, without a user."""
    try:
        parts = urlsplit(text)
        return parts.scheme == "https" and bool(parts.hostname) and "@" not in parts.netloc
    except ValueError:
        return False


def plain_reason(message: str) -> str:
    """Return the message without the library's words. One that is already plain stays as it is."""
    for pattern, words in _RULES:
        if match := pattern.fullmatch(message):
            return match.expand(words)
    return message


def error_reason(error: Exception) -> str:
    """Return the reason of an error without the numbers and codecs of Python."""
    match error:
        case OSError(strerror=str(reason)):
            return reason
        case UnicodeDecodeError(encoding=encoding, start=start):
            return f"byte {start + 1} of the text is not {encoding.upper()}"
    return plain_reason(str(error)) or "it has another layout"  # prometheus-client says nothing
