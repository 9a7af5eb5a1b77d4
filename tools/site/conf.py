# SPDX-License-Identifier: BSD-3-Clause
"""How Sphinx makes the site; make_site.py runs it.  The settings keep all resources local."""

project = "libfur"
html_title = "libfur"
extensions = ["myst_parser"]
myst_heading_anchors = 4  # the anchors that GitHub makes
root_doc = "index"
highlight_language = "none"  # for indented blocks; fenced ones name their language
smartquotes = False

html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}
