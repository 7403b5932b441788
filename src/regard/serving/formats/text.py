"""Plain text -> plain text: each line is translated, all between lines stays.

A line that ends where the page does, in the midst of a sentence, is not joined with the next: what
is a paragraph and what is a list or a poem cannot be told for sure.
"""

from regard.serving.formats.document import Document
from regard.text.segments import cut_lines


def read_text(document: str) -> Document:
    """The lines of a text, with what is around their sentences, and the line breaks."""
    return cut_lines(document)
