"""What CTranslate2 calls our tokens."""

from regard.text.special_tokens import SPECIAL_PIECES


def token_labels(size: int) -> list[str]:
    """A name for each id: the special ones by their pieces, all others by number."""
    return [*SPECIAL_PIECES, *map(str, range(len(SPECIAL_PIECES), size))]
