"""Renders a comment in Markdown as GitHub shows it on a phone.

It follows GitHub as far as the comments need it (CommonMark, tables, raw HTML, font sizes, a width
of 390 points), without emoji, mentions and the sanitizer.
"""

from markdown_it import MarkdownIt

WIDTH = 390
STYLE = """
body { margin: 0; padding: 16px; background: #fff; color: #1f2328; word-wrap: break-word; overflow-wrap: break-word;
  font: 14px/1.5 -apple-system, "Segoe UI", "Noto Sans", Helvetica, Arial, sans-serif; }
.box { border: 1px solid #d1d9e0; border-radius: 6px; }
.head { padding: 8px 16px; background: #f6f8fa; border-bottom: 1px solid #d1d9e0; color: #59636e; border-radius: 6px 6px 0 0; }
.body { padding: 16px; }
.body > :first-child { margin-top: 0 } .body > :last-child { margin-bottom: 0 }
p, ul, table, details { margin: 0 0 16px }
h3 { font-size: 1.25em; line-height: 1.25; margin: 24px 0 16px } h4 { font-size: 1em; line-height: 1.25; margin: 24px 0 16px }
ul { padding-left: 2em } ul ul { margin-bottom: 0 } li + li { margin-top: .25em }
code { font: 85% ui-monospace, SFMono-Regular, Menlo, "DejaVu Sans Mono", monospace; padding: .2em .4em; background: #818b981f;
  border-radius: 6px; white-space: break-spaces; }
table { display: block; width: max-content; max-width: 100%; overflow: auto; border-collapse: collapse }
td, th { padding: 6px 13px; border: 1px solid #d1d9e0 }
sub { font-size: 75%; line-height: 0; position: relative; vertical-align: baseline; bottom: -.25em }
summary { cursor: pointer }
"""


def page(markdown: str) -> str:
    """Return the comment as a web page."""
    body = MarkdownIt("commonmark", {"html": True, "breaks": True}).enable("table").render(markdown)
    head = "<b>github-actions</b> bot commented"
    return (
        f'<!doctype html><meta charset="utf-8"><meta name="viewport" content="width={WIDTH}"><style>{STYLE}</style>'
        f'<div class="box"><div class="head">{head}</div><div class="body">{body}</div></div>'
    )
