"""Figures as a notebook shows them: in its own theme, light or dark."""

import base64
from collections.abc import Callable
from html import escape

from matplotlib.figure import Figure

from regard.inspection.plots.maps import render_figure
from regard.inspection.plots.theme import ThemeName

DARK_PAGE_SELECTORS = (
    'html[theme="dark"], [data-theme="dark"], [data-jp-theme-light="false"], .vscode-dark'
)
"""How a page says that it is dark: Colab, Sphinx and its kin, JupyterLab, VS Code."""
NOTEBOOK_CSS = f"""\
:is({DARK_PAGE_SELECTORS}) .regard-figure > .regard-light {{ display: none; }}
:is({DARK_PAGE_SELECTORS}) .regard-figure > .regard-dark {{ display: inline !important; }}
.regard-figure > img {{ max-width: 100%; }}
"""


def notebook_html(draw: Callable[[ThemeName], Figure], *, alt: str) -> str:
    """HTML with the figure in both themes, of which a page shows the one that is like itself.

    `alt` says what is to be seen, for those who cannot. A page that drops styles shows the light
    one.
    """
    light, dark = (_data_uri(draw, theme) for theme in ("light", "dark"))
    return (
        f'<div class="regard-figure"><style>{NOTEBOOK_CSS}</style>'
        f'<img class="regard-light" alt="{escape(alt)}" src="{light}">'
        f'<img class="regard-dark" alt="{escape(alt)}" src="{dark}" hidden>'
        "</div>"
    )


def _data_uri(draw: Callable[[ThemeName], Figure], theme: ThemeName) -> str:
    """The figure as an address that holds all of it."""
    content = base64.b64encode(render_figure(draw(theme), ".svg")).decode("ascii")
    return f"data:image/svg+xml;base64,{content}"
