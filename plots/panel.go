package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/joulemark/joulemark/analysis"
)

// panel draws one pair of axes with its layers.
func (l *layout) panel(p Panel, f frame) {
	at := place{p, f.Rectangle}
	l.grid(at, f)
	for _, layer := range p.Layers {
		l.layer(at, layer)
	}
	l.axes(at, f)
}

// place converts numbers to places in a panel.
type place struct {
	Panel
	vg.Rectangle
}

func (p place) x(v analysis.Num) vg.Length {
	return p.Min.X + vg.Length(p.X.share(float64(v)))*(p.Max.X-p.Min.X)
}

func (p place) y(v analysis.Num) vg.Length {
	return p.Min.Y + vg.Length(p.Y.share(float64(v)))*(p.Max.Y-p.Min.Y)
}

// cutX is x within the panel; what lies left of a logarithmic axis, or is not
// above 0 there, stands at its left end.
func (p place) cutX(v analysis.Num) vg.Length {
	if p.X.Log && !(v > 0) {
		return p.Min.X
	}
	return min(max(p.x(v), p.Min.X), p.Max.X)
}

func (l *layout) grid(at place, f frame) {
	line := Layer{Color: pale, Opacity: 0.7, Size: 0.5}
	for _, t := range f.x {
		if t.label != "" {
			x := at.x(analysis.Num(t.at))
			l.pen.stroke(line, []vg.Point{{X: x, Y: f.Min.Y}, {X: x, Y: f.Max.Y}})
		}
	}
	for _, t := range f.y {
		if t.label != "" {
			y := at.y(analysis.Num(t.at))
			l.pen.stroke(line, []vg.Point{{X: f.Min.X, Y: y}, {X: f.Max.X, Y: y}})
		}
	}
}

func (l *layout) axes(at place, f frame) {
	line := Layer{Color: black, Opacity: 1, Size: 0.7}
	l.pen.stroke(line, []vg.Point{{X: f.Min.X, Y: f.Max.Y}, f.Min, {X: f.Max.X, Y: f.Min.Y}})
	for _, t := range f.x {
		x, length := at.x(analysis.Num(t.at)), vg.Length(tickLength)
		if t.label == "" {
			length /= 2
		}
		l.pen.stroke(line, []vg.Point{{X: x, Y: f.Min.Y}, {X: x, Y: f.Min.Y - length}})
		l.pen.text(t.label, x, f.Min.Y-tickLength-2-tickSize/2, tickSize, false, black, 0.5)
	}
	for _, t := range f.y {
		y := at.y(analysis.Num(t.at))
		l.pen.stroke(line, []vg.Point{{X: f.Min.X, Y: y}, {X: f.Min.X - tickLength, Y: y}})
		l.pen.text(t.label, f.Min.X-tickLength-3, y, tickSize, false, black, 1)
	}
	for _, c := range at.Y.Categories {
		l.pen.text(c.Label, f.Min.X-tickLength-3, at.y(analysis.Num(c.At)), axisSize-1, c.Heading, black, 1)
	}
	if f.labelled {
		l.pen.text(at.X.label(), (f.Min.X+f.Max.X)/2, f.Min.Y-tickLength-tickSize-8-axisSize/2, axisSize, false, black, 0.5)
	}
	if s := at.Y.label(); s != "" {
		room := vg.Length(0)
		for _, t := range f.y {
			room = max(room, l.pen.width(t.label, tickSize, false))
		}
		l.pen.upright(s, f.Min.X-tickLength-8-room-axisSize/2, (f.Min.Y+f.Max.Y)/2, axisSize)
	}
	l.pen.text(l.pen.shorten(at.Title, axisSize-0.5, f.Max.X-f.left), f.left, f.Max.Y+4+axisSize/2, axisSize-0.5, true, black, 0)
}

func (l *layout) layer(at place, layer Layer) {
	switch layer.Kind {
	case Line:
		l.line(at, layer)
	case Band:
		l.band(at, layer)
	case BarLayer:
		l.bars(at, layer)
	case Intervals:
		for i, y := range layer.Y {
			l.pen.stroke(layer, []vg.Point{{X: at.cutX(layer.Lo[i]), Y: at.y(y)}, {X: at.cutX(layer.Hi[i]), Y: at.y(y)}})
		}
	case Points:
		for i := range layer.X {
			if layer.X[i].Stated() && layer.Y[i].Stated() {
				l.pen.point(layer, vg.Point{X: at.x(layer.X[i]), Y: at.y(layer.Y[i])})
			}
		}
	case Spans:
		l.spans(at, layer)
	case Labels:
		for i, s := range layer.Text {
			l.pen.text(s, at.Max.X+6, at.y(layer.Y[i]), vg.Length(layer.Size), false, layer.Color, 0)
		}
	}
}

// pieces calls use with the stretches of a layer between nulls.
func pieces(n int, stated func(i int) bool, use func(from, to int)) {
	from := 0
	for i := 0; i <= n; i++ {
		if i == n || !stated(i) {
			if i > from {
				use(from, i)
			}
			from = i + 1
		}
	}
}

func (l *layout) line(at place, layer Layer) {
	c := draw.Canvas{Canvas: l.pen.c, Rectangle: at.Rectangle}
	stated := func(i int) bool { return layer.X[i].Stated() && layer.Y[i].Stated() }
	pieces(len(layer.X), stated, func(from, to int) {
		var points []vg.Point
		for i := from; i < to; i++ {
			points = append(points, vg.Point{X: at.x(layer.X[i]), Y: at.y(layer.Y[i])})
		}
		if len(points) == 1 { // a sample between two gaps
			points = append(points, vg.Point{X: points[0].X + vg.Length(layer.Size), Y: points[0].Y})
		}
		for _, part := range c.ClipLinesXY(points) {
			l.pen.stroke(layer, part)
		}
	})
}

func (l *layout) band(at place, layer Layer) {
	// A column holds a place of its own, also beside a gap.
	half := vg.Length(0.35)
	stated := func(i int) bool { return layer.Lo[i].Stated() && layer.Hi[i].Stated() }
	cut := func(v analysis.Num) vg.Length { return min(max(at.y(v), at.Min.Y), at.Max.Y) }
	pieces(len(layer.X), stated, func(from, to int) {
		var points []vg.Point
		for i := from; i < to; i++ {
			points = append(points, vg.Point{X: at.x(layer.X[i]), Y: cut(layer.Hi[i]) + half})
		}
		for i := to - 1; i >= from; i-- {
			points = append(points, vg.Point{X: at.x(layer.X[i]), Y: cut(layer.Lo[i]) - half})
		}
		l.pen.polygon(layer.Color, layer.Opacity, points)
	})
}

func (l *layout) bars(at place, layer Layer) {
	zero := at.Min.X
	if !at.X.Log {
		zero = at.cutX(0)
	}
	half := analysis.Num(layer.Size / 2)
	for i, y := range layer.Y {
		end := at.cutX(layer.X[i])
		l.pen.fill(layer.Color, layer.Opacity, vg.Rectangle{
			Min: vg.Point{X: min(zero, end), Y: at.y(y - half)}, Max: vg.Point{X: max(zero, end), Y: at.y(y + half)},
		})
	}
}

// spans shades stretches and writes their text where it fits: along the top,
// or upright at the bottom, away from the power of a window.
func (l *layout) spans(at place, layer Layer) {
	const least = 0.75 // points: a hair's breadth is still seen
	size := vg.Length(layer.Size)
	for i := range layer.Lo {
		from, to := at.cutX(layer.Lo[i]), at.cutX(layer.Hi[i])
		middle := (from + to) / 2
		if to-from < least {
			from, to = middle-least/2, middle+least/2
		}
		l.pen.fill(layer.Color, layer.Opacity, vg.Rectangle{Min: vg.Point{X: from, Y: at.Min.Y}, Max: vg.Point{X: to, Y: at.Max.Y}})
		text := layer.Text[i]
		w := l.pen.width(text, size, false)
		switch {
		case text == "":
		case w+4 <= to-from:
			l.pen.text(text, middle, at.Max.Y-2-size/2, size, false, black, 0.5)
		case size*1.2 <= to-from && w+4 <= at.Max.Y-at.Min.Y:
			l.pen.upright(text, middle, at.Min.Y+4+w/2, size)
		}
	}
}

// finite keeps canvases from numbers that they cannot write.
func finite(points []vg.Point) bool {
	for _, p := range points {
		if s := float64(p.X + p.Y); math.IsNaN(s) || math.IsInf(s, 0) {
			return false
		}
	}
	return true
}
