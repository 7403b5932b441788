"""Text that is no language: URLs, e-mail addresses, placeholders, characters written by name."""

import re

CHARACTER_REFERENCE = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
"""A character written by its name or number."""
_CONVERSION = r"[#0+-]*\d*(?:\.\d+)?[diouxXeEfFgGcrsa@](?![A-Za-z])"
PLACEHOLDER = re.compile(
    r"\{\{[^{}\n]{1,200}\}\}"  # {{x}}
    r"|\$\{[^{}\n]{1,200}\}"  # ${x}
    r"|\{[\w.!:\[\],#+*^%-]{0,80}\}"  # {}, {name}, {0:.2f}
    rf"|%\([\w.]{{1,80}}\){_CONVERSION}"  # %(name)d
    rf"|(?<![\w%])%(?:\d{{1,2}}\$)?{_CONVERSION}"  # %s, %1$s
    r"|(?<![\w%])%L?\d{1,2}(?!\w)"  # %1
    r"|\$[A-Za-z_]\w*"  # $VAR
)
_URL_REST = rf"(?:&amp;|(?!{CHARACTER_REFERENCE.pattern})[^\s<>\"])+(?:(?<=[\w/#&=])|(?<=&amp;))"
"""Up to a reference: `&gt;` and `&nbsp;` stand behind an address, not in it."""
URL_OR_EMAIL = re.compile(
    rf"(?:https?|ftp)://{_URL_REST}|(?<![\w.@])www\.{_URL_REST}"
    r"|(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
CODE = re.compile(f"(?:{URL_OR_EMAIL.pattern})|(?:{PLACEHOLDER.pattern})", re.IGNORECASE)
"""A URL, an e-mail address or a placeholder."""
