"""Files with a bit turned over."""


def flip(path, place=0, bit=0):
    """Turn one bit of a file over; the same again turns it back."""
    content = bytearray(path.read_bytes())
    content[place] ^= 1 << bit
    path.write_bytes(bytes(content))
