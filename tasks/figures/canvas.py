"""The drawing surface: one look for all figures, rendered to PNG and to SVG without dates or random ids.

Colours are the Okabe-Ito set, told apart with any colour vision; arms also differ by marker and line. In the SVG, ink
and grid become CSS colours, so that a figure reads in light and dark.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

INK = "#1f2328"
SOFT = "#5b6570"
GRID = "#dfe3e8"
MUTED = "#a9b1ba"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
LINES = ("-", "--", "-.", ":", "-", "--", "-.")
THEMED = {
    INK: "currentColor",
    SOFT: "var(--soft)",
    GRID: "var(--rule)",
    MUTED: "var(--muted)",
    COLOURS[0]: "var(--first)",
}
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


@dataclass(frozen=True, slots=True)
class Figure:
    """A drawn figure: file name without suffix, title, what to see in it, and its two renderings."""

    name: str
    title: str
    caption: str
    png: bytes
    svg: str


@dataclass(frozen=True, slots=True)
class Look:
    """How an arm is drawn."""

    colour: str
    marker: str
    line: str


def look_of(arm: str, arms: Sequence[str]) -> Look:
    """Base is grey; the others take colours in their order."""
    if arm == "base":
        return Look(SOFT, "o", "-")
    place = [one for one in arms if one != "base"].index(arm) % len(COLOURS)
    return Look(COLOURS[place], MARKERS[place], LINES[place])


def render(
    name: str, title: str, caption: str, size: tuple[float, float], panels: int,
    draw: Callable[[Sequence[Axes]], None], columns: int = 0,
) -> Figure:  # fmt: skip
    """Draw on `panels` axes side by side; `size` in inches."""
    import matplotlib as mpl
    from matplotlib.figure import Figure as Drawing

    with mpl.rc_context(_settings(name)):
        drawing = Drawing(figsize=size, layout="constrained")
        columns = columns or panels
        axes = list(drawing.subplots(-(-panels // columns), columns, squeeze=False).flat)
        draw(axes)
        return Figure(name, title, caption, _png(drawing), _svg(drawing, name, title))


def _settings(name: str) -> dict[str, object]:
    return {
        "font.size": 10, "font.family": ["DejaVu Sans"], "svg.fonttype": "none", "svg.hashsalt": name,
        "text.color": INK, "axes.labelcolor": INK, "axes.edgecolor": MUTED, "axes.titlesize": 10.5,
        "axes.titlelocation": "left", "axes.titleweight": "bold", "axes.spines.top": False, "axes.spines.right": False,
        "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.8,
        "xtick.color": SOFT, "ytick.color": SOFT, "legend.frameon": False, "lines.linewidth": 1.8,
        "figure.dpi": 100, "path.simplify": False,
    }  # fmt: skip


def _png(drawing: Drawing) -> bytes:
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png", dpi=150, facecolor="white", metadata={"Software": None})
    return buffer.getvalue()


def _svg(drawing: Drawing, name: str, title: str) -> str:
    buffer = io.BytesIO()
    drawing.savefig(
        buffer, format="svg", transparent=True, metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
    text = buffer.getvalue().decode("utf-8")
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    # Several figures stand in one page, so their ids get the figure's name.
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"'DejaVu Sans'", FONT.replace("\\", ""), text)
    for colour, variable in THEMED.items():
        text = text.replace(colour, variable)
    head = re.sub(r' (width|height)="[^"]*pt"', "", text[: text.index(">")])
    label = title.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
    return f'{head} role="img" aria-label="{label}"{text[text.index(">") :]}'
