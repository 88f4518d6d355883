from jobfence import __version__

project = "jobfence"
author = "jobfence contributors"
copyright = "2026, jobfence contributors"  # noqa: A001  Sphinx's name for it
release = version = __version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["_build"]
nitpicky = True
# The documentation is built without a network: others' names lead nowhere. Nor do type
# variables and the names that are there for type checkers only.
nitpick_ignore_regex = [
    (
        "py:class",
        r"(collections|contextlib|datetime|inspect|types|typing|sqlalchemy)\..*",
    ),
    (
        "py:class",
        r"jobfence\.store\.memory\.rows\..*",
    ),  # opaque: `changes` says what is in them
    ("py:class", r"(JSON|JSONInput|Connection|Session|Transaction|.*\.[FPT])"),
]

myst_enable_extensions = ["colon_fence", "deflist"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "description"

html_theme = "furo"
html_title = f"jobfence {release}"
