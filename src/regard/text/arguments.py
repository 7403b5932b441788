"""What a caller may give as texts."""

from collections.abc import Sequence


def require_texts(name: str, texts: Sequence[str]) -> None:
    """An error unless the argument called `name` is several texts: one is not its letters."""
    if isinstance(texts, str | bytes) or not all(isinstance(one, str) for one in texts):
        kinds = {type(one).__name__ for one in texts if not isinstance(one, str)}
        found = type(texts).__name__ if isinstance(texts, str | bytes) else ", ".join(sorted(kinds))
        raise TypeError(
            f"{name} must be a list of texts (str), got {found}; for one text give [text]"
        )
