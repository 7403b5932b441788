"""What a cell prints stands on the page as it was printed.

A kernel sends it in several messages, whenever it is flushed, also in the middle of a line. MyST-NB
ends the line after each of them; here they are joined as they are.
"""

from typing import Any

from myst_nb.core import render
from sphinx.application import Sphinx

Output = dict[str, Any]


def join_streams(outputs: list[Output]) -> list[Output]:
    """The outputs of a cell with one for each stream."""
    joined: list[Output] = []
    streams: dict[str, Output] = {}
    for output in outputs:
        name = output["name"] if output["output_type"] == "stream" else ""
        if name in streams:
            streams[name]["text"] += output["text"]
            continue
        joined.append(output)
        if name:
            streams[name] = output
    return joined


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    render.coalesce_streams = join_streams
    return {"parallel_read_safe": True, "parallel_write_safe": True}
