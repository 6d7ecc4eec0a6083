"""Charts as SVG: panels side by side and below each other, each with two axes, curves and dots, under one legend."""

from dataclasses import dataclass, field

WIDTH, HEIGHT, LEFT, TOP, RIGHT, BELOW = 300, 220, 70, 60, 50, 50  # of a panel's plot, and around it
COLORS = ["#d95f02", "#7570b3", "#1b9e77"]
THIN = "stroke:#ddd"


@dataclass
class Axis:
    """From `low` to `high`, with marks at (value, text)."""
    low: float
    high: float
    marks: list

    def part(self, value):
        return (value - self.low) / max(self.high - self.low, 1e-9)


@dataclass
class Panel:
    title: str
    x: Axis
    y: Axis
    curves: list = field(default_factory=list)  # (style, points)
    dots: list = field(default_factory=list)    # (color, points)


def text(x, y, words, anchor="middle", more=""):
    return f"<text x='{x:.1f}' y='{y:.1f}' text-anchor='{anchor}'{more}>{words}</text>\n"


def line(points, style):
    places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f"<polyline points='{places}' style='fill:none;{style}'/>\n"


def drawn(panel, left, top):
    def place(x, y):
        return left + panel.x.part(x) * WIDTH, top + (1 - panel.y.part(y)) * HEIGHT

    svg = text(left + WIDTH / 2, top - 12, panel.title, more=" font-weight='bold'")
    for value, words in panel.y.marks:
        y = place(0, value)[1]
        svg += line([(left, y), (left + WIDTH, y)], THIN) + text(left - 6, y + 4, words, "end")
    for value, words in panel.x.marks:
        x = place(value, 0)[0]
        svg += line([(x, top), (x, top + HEIGHT)], THIN) + text(x, top + HEIGHT + 16, words)
    for style, points in panel.curves:
        svg += line([place(*point) for point in points], "stroke-width:2;" + style)
    for color, points in panel.dots:
        for x, y in (place(*point) for point in points):
            svg += f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{color}'/>\n"
    return svg


def picture(rows, legend, title="", note=""):
    """The SVG of rows of panels. `legend` has pairs of a label and the style of its curve; `note` follows it."""
    svg, top = text(LEFT, 20, title, "start"), TOP + 30
    for i, (label, style) in enumerate(legend):
        left = LEFT + 160 * i
        svg += line([(left, 38), (left + 30, 38)], "stroke-width:2;" + style) + text(left + 36, 42, label, "start")
    svg += text(LEFT + 160 * len(legend), 42, note, "start")
    for panels in rows:
        for i, panel in enumerate(panels):
            svg += drawn(panel, LEFT + i * (WIDTH + RIGHT + LEFT), top)
        top += HEIGHT + BELOW + 30
    width = max(LEFT + max(map(len, rows)) * (WIDTH + RIGHT + LEFT), LEFT + 160 * len(legend) + 8 * len(note) + 20)
    return (f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{top - 30}' font-family='sans-serif' "
            f"font-size='12'>\n<rect width='100%' height='100%' fill='white'/>\n{svg}</svg>\n")
