"""Small pieces of HTML. Text becomes markup only through `text`, which escapes it: models write HTML, too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape


def text(value: object) -> str:
    """Any value as escaped text."""
    return escape(str(value), quote=True)


def section(anchor: str, title: str, *parts: str, lead: str = "") -> str:
    """A titled section; empty where it has no parts."""
    body = "".join(parts)
    if not body:
        return ""
    intro = f'<p class="lead">{text(lead)}</p>' if lead else ""
    return f'<section id="{text(anchor)}"><h2>{text(title)}</h2>{intro}{body}</section>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    """A table whose cells are markup already; the first column is the row's head."""
    body = "".join(_row(row, len(head)) for row in rows)
    if not body:
        return ""
    titles = "".join(f'<th scope="col">{text(title)}</th>' for title in head)
    return (
        f'<div class="scroll"><table class="{kind}"><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table></div>'
    )


def _row(cells: Sequence[str], columns: int) -> str:
    """A row; one cell alone is a heading over all columns, and the last cell of a short row fills what is left."""
    if len(cells) == 1:
        return f'<tr class="group"><th colspan="{columns}">{cells[0]}</th></tr>'
    left = columns - len(cells) + 1
    last = f'<td colspan="{left}">' if left > 1 else "<td>"
    rest = "".join(f"<td>{cell}</td>" for cell in cells[1:-1])
    return f'<tr><th scope="row">{cells[0]}</th>{rest}{last}{cells[-1]}</td></tr>'


def details(summary: str, body: str) -> str:
    """A part that is folded away; open in print."""
    return f"<details><summary>{text(summary)}</summary>{body}</details>" if body else ""


def note(value: str) -> str:
    """A remark under a table."""
    return f'<p class="note">{text(value)}</p>'


def span(kind: str, value: object) -> str:
    """Escaped text with a class."""
    return f'<span class="{kind}">{text(value)}</span>'
