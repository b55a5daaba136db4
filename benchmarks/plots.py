"""Small plots as SVG text: bars (logarithmic where figures differ by powers of ten) and lines. Knows no measure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH = 720
LABEL_WIDTH = 190
ROW = 26
COLOURS = ("#2f6f9f", "#c4622d", "#5b8c5a", "#8a5a9e", "#9c8b3f")
GREY = "#666666"
_FONT = 'font-family="sans-serif" font-size="12"'


@dataclass(frozen=True, slots=True)
class Series:
    """One line of a plot: (x, y) in order."""

    name: str
    points: Sequence[tuple[float, float]]


def bars(title: str, unit: str, values: Sequence[tuple[str, float]]) -> str:
    """Horizontal bars, one a value, each with its figure; on a logarithmic scale where they differ thirtyfold."""
    positive = [value for _, value in values if value > 0]
    logarithmic = bool(positive) and max(positive) / min(positive) > 30
    high = max(positive, default=1.0)
    low = min(positive, default=1.0) / 3
    room = WIDTH - LABEL_WIDTH - 110

    def length(value: float) -> float:
        if value <= 0:
            return 0.0
        return room * (math.log(value / low) / math.log(high / low) if logarithmic else value / high)

    parts = [_text(8, 20, f"{title} ({unit}{', logarithmic' if logarithmic else ''})", weight="bold")]
    for index, (name, value) in enumerate(values):
        y = 36 + index * ROW
        colour = COLOURS[0] if index == 0 else "#a9b8c4"
        parts.append(_text(LABEL_WIDTH - 8, y + 15, name, anchor="end"))
        parts.append(
            f'<rect x="{LABEL_WIDTH}" y="{y}" width="{length(value):.1f}" height="{ROW - 8}" fill="{colour}"/>'
        )
        parts.append(_text(LABEL_WIDTH + length(value) + 6, y + 14, figure(value)))
    return _svg(36 + len(values) * ROW + 10, parts)


def lines(title: str, x_unit: str, y_unit: str, series: Sequence[Series]) -> str:
    """Lines over a logarithmic x axis; y is logarithmic where it spans more than tenfold."""
    points = [point for one in series for point in one.points if point[0] > 0 and point[1] > 0]
    if not points:
        return _svg(60, [_text(8, 20, f"{title}: nothing measured", weight="bold")])
    xs, ys = [point[0] for point in points], [point[1] for point in points]
    x_axis = _Axis(min(xs), max(xs), 70, WIDTH - 170, logarithmic=True)
    y_axis = _Axis(min(ys), max(ys), 260, 50, logarithmic=max(ys) / min(ys) > 10)
    parts = [_text(8, 20, title, weight="bold"), *_frame(x_axis, y_axis, x_unit, y_unit)]
    for index, one in enumerate(series):
        colour = COLOURS[index % len(COLOURS)]
        at = [(x_axis.at(x), y_axis.at(y)) for x, y in one.points if x > 0 and y > 0]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in at)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in at]
        if at:
            parts.append(_text(at[-1][0] + 8, at[-1][1] + 4, one.name, colour=colour))
    return _svg(300, parts)


@dataclass(frozen=True, slots=True)
class _Axis:
    """Figures to places on the page."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        if self.high == self.low:
            return (self.start + self.end) / 2
        if self.logarithmic:
            share = math.log(value / self.low) / math.log(self.high / self.low)
        else:
            share = (value - self.low) / (self.high - self.low)
        return self.start + share * (self.end - self.start)

    def ticks(self) -> list[float]:
        """Powers of ten in between, and both ends."""
        if not self.logarithmic or self.high / self.low < 10:
            return [self.low, (self.low + self.high) / 2, self.high]
        first, last = math.ceil(math.log10(self.low)), math.floor(math.log10(self.high))
        return [10.0**power for power in range(first, last + 1)]


def _frame(x_axis: _Axis, y_axis: _Axis, x_unit: str, y_unit: str) -> list[str]:
    left, right, bottom, top = x_axis.start, x_axis.end, y_axis.start, y_axis.end
    parts = [
        f'<path d="M{left - 10},{top} V{bottom + 10} H{right}" fill="none" stroke="{GREY}"/>',
        _text(right, bottom + 34, x_unit, anchor="end", colour=GREY),
        _text(left - 10, top - 8, y_unit, colour=GREY),
    ]
    parts += [
        _text(x_axis.at(tick), bottom + 24, figure(tick), anchor="middle", colour=GREY)
        for tick in x_axis.ticks()
    ]
    parts += [
        _text(left - 14, y_axis.at(tick) + 4, figure(tick), anchor="end", colour=GREY)
        for tick in y_axis.ticks()
    ]
    return parts


def figure(value: float) -> str:
    """A short figure."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _text(x: float, y: float, text: str, **style: str) -> str:
    extra = f' text-anchor="{style["anchor"]}"' if "anchor" in style else ""
    extra += f' font-weight="{style["weight"]}"' if "weight" in style else ""
    colour = style.get("colour", "#222222")
    return f'<text x="{x:.1f}" y="{y:.1f}" {_FONT} fill="{colour}"{extra}>{escape(text)}</text>'


def _svg(height: float, parts: Sequence[str]) -> str:
    size = f'width="{WIDTH}" height="{height:.0f}" viewBox="0 0 {WIDTH} {height:.0f}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size}>'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"
