"""Files that are not text, recognised by their first bytes: as lines they would be garbage."""

from regard.errors import CorpusError

MAGIC_BYTES = {
    b"PK\x03\x04": "a zip archive, or a document that is one (.docx, .xlsx, .odt, .epub)",
    b"PK\x05\x06": "an empty zip archive",
    b"%PDF": "a PDF",
    b"{\\rtf": "a document in rich text (RTF)",
    b"\xd0\xcf\x11\xe0": "a document of an office program (.doc, .xls, .ppt)",
    b"\x7fELF": "a program",
    b"MZ\x90": "a program",
    b"\x89PNG": "a picture",
    b"\xff\xd8\xff": "a picture",
    b"GIF8": "a picture",
    b"BZh": "compressed (bzip2)",
    b"\xfd7zXZ": "compressed (xz)",
    b"\x28\xb5\x2f\xfd": "compressed (zstd)",
    b"7z\xbc\xaf": "a 7z archive",
    b"ARROW1": "an Arrow file",
    b"PAR1": "a Parquet file",
    b"SQLite format 3": "a database",
}
MIN_NULLS, NULL_SHARE = 8, 0.01  # the fewest null bytes of a binary file, and their share
CONTROLS = bytes({*range(32), 127} - {*b"\t\n\v\f\r\x1b"})
MIN_CONTROLS, CONTROL_SHARE = 8, 0.05  # the same; compressed data has a tenth
UTF16 = (b"\xff\xfe", b"\xfe\xff")


def refuse_binary(head: bytes, name: str) -> None:
    """An error if a file that begins with `head` is not text in UTF-8."""
    if head.startswith(UTF16):
        raise CorpusError(
            f"{name}: is UTF-16, and text must be UTF-8; convert it: iconv -f UTF-16 -t UTF-8"
        )
    kind = next((kind for mark, kind in MAGIC_BYTES.items() if head.startswith(mark)), None)
    nulls = head.count(0)
    if kind is None and nulls >= MIN_NULLS and nulls >= NULL_SHARE * len(head):
        kind = f"binary: {nulls:,} of its first {len(head):,} bytes are null bytes"
    controls = len(head) - len(head.translate(None, CONTROLS))
    if kind is None and controls >= MIN_CONTROLS and controls >= CONTROL_SHARE * len(head):
        kind = f"binary: {controls:,} of its first {len(head):,} bytes are control characters"
    if kind is not None:
        raise CorpusError(f"{name}: not a text file but {kind}; save its text as UTF-8 first")
