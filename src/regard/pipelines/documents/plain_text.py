"""Plain text -> plain text: each line is translated, all between lines stays.

A line that ends where the page does, in the midst of a sentence, is not joined with the next: what
is a paragraph and what is a list or a poem cannot be told for sure.
"""

from regard.pipelines.documents.document import Document
from regard.text.segmentation import split_lines


def read_text(document: str) -> Document:
    """The lines of a text, with what is around their sentences, and the line breaks."""
    return split_lines(document)
