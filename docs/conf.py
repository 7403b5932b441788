"""How Sphinx makes the site of these pages: `make docs`."""

import sys
from pathlib import Path

import ziamath

import regard

DOCS = Path(__file__).parent
sys.path.insert(0, str(DOCS))

project, author, copyright = "regard", "the authors of regard", "the authors of regard"
version = release = regard.__version__
extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "site_build.mathml",
    "site_build.source_pages",
    "site_build.stream_output",
    "site_build.generated_pages",
    "site_build.viewer_frames",
    "site_build.site_check",
]
exclude_patterns = ["conf.py", "site_build/*", "receipts_tool/*"]
nitpicky = False
suppress_warnings = ["myst.header"]  # levels of headings may be left out

# Pages are Markdown as GitHub reads it; a chapter of the tour is a script in percent format.
myst_enable_extensions = ["dollarmath", "html_image"]
myst_heading_anchors = 6
nb_custom_formats = {".py": ["jupytext.reads", {"fmt": "py:percent"}]}
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600
nb_execution_show_tb = True
nb_merge_streams = True
nb_number_source_lines = False
nb_code_prompt_show = "Show the answer"
nb_code_prompt_hide = "Hide it"

autodoc_default_options = {"member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_preserve_defaults = True
default_role = "code"
smartquotes = False  # options begin with two dashes
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 140

html_theme = "furo"
html_title = "regard"
MATH_FONT = Path(ziamath.__file__).parent / "fonts" / "STIXTwoMath-Regular.ttf"
html_static_path = ["site_build/static", str(MATH_FONT)]
html_css_files = ["site.css"]
html_js_files = ["site.js"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would be fetched, which a page from a disk may not
html_show_copyright = False
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#0b57a4", "color-brand-content": "#0b57a4"},
    "dark_css_variables": {
        "color-brand-primary": "#8fd0ff",
        "color-brand-content": "#8fd0ff",
        "color-background-primary": "#15181d",
    },
}
copybutton_prompt_text = r"\$ "
copybutton_prompt_is_regexp = True
