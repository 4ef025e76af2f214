package plots

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// signature is what Ours looks for in a file.
const signature = "drawn by joulemark"

// dotsPerInch of a PNG: a point is 4/3 of a pixel, as in a browser.
const dotsPerInch = 96

// SVG draws the figure. The same figure gives the same bytes.
func (f Figure) SVG() ([]byte, error) {
	l, err := f.layout()
	if err != nil {
		return nil, err
	}
	c := vgsvg.New(l.width, l.height)
	l.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s as SVG: %w", f.Kind, err)
	}
	out := b.Bytes()
	// Liberation Sans has the widths of Arial and Helvetica (Red Hat's
	// description of the fonts): any of them fits the layout.
	out = bytes.ReplaceAll(out, []byte("font-family:Liberation Sans;font-variant:normal;"), []byte("font-family:'Liberation Sans',Arial,Helvetica,sans-serif;"))
	head := []byte("xmlns:xlink=\"http://www.w3.org/1999/xlink\">\n")
	at := bytes.Index(out, head)
	if at < 0 {
		return nil, fmt.Errorf("draw %s as SVG: the canvas wrote no head", f.Kind)
	}
	at += len(head)
	return slices.Insert(out, at, []byte("<desc>"+signature+"</desc>\n")...), nil
}

// PNG draws the figure at 96 dots an inch.
func (f Figure) PNG() ([]byte, error) {
	l, err := f.layout()
	if err != nil {
		return nil, err
	}
	c := vgimg.NewWith(vgimg.UseWH(l.width, l.height), vgimg.UseDPI(dotsPerInch))
	l.draw(draw.New(c))
	var b bytes.Buffer
	if _, err := (vgimg.PngCanvas{Canvas: c}).WriteTo(&b); err != nil {
		return nil, fmt.Errorf("draw %s as PNG: %w", f.Kind, err)
	}
	// A text chunk after the first one, which has a fixed length (PNG
	// specification, third edition, 5.6 and 11.3.3).
	const head = 8 + 4 + 4 + 13 + 4
	return slices.Insert(b.Bytes(), head, chunk("tEXt", "Software\x00"+signature)...), nil
}

// chunk is one chunk of a PNG file.
func chunk(kind, data string) []byte {
	body := kind + data
	b := binary.BigEndian.AppendUint32(nil, uint32(len(data)))
	b = append(b, body...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE([]byte(body)))
}

// Ours reports whether a file that begins with head was drawn by SVG or PNG.
// The first kilobyte is enough.
func Ours(head []byte) bool {
	svg := bytes.HasPrefix(head, []byte("<?xml")) && bytes.Contains(head, []byte("<desc>"+signature))
	png := bytes.HasPrefix(head, []byte("\x89PNG")) && bytes.Contains(head, []byte("Software\x00"+signature))
	return svg || png
}

// Lengths of a picture, points.
const (
	margin     = 12
	titleSize  = 14
	noteSize   = 9
	axisSize   = 10
	tickSize   = 8.5
	legendSize = 9
	gapX, gapY = 14, 12
	tickLength = 4
	// maxLegend entries are shown.
	maxLegend = 24
	// maxHeight bounds a picture.
	maxHeight = 14_400
)

// layout is a figure with the place of everything.
type layout struct {
	f             Figure
	pen           pen
	width, height vg.Length
	columns       int
	frames        []frame
	notes         []string
	legend        []entry
}

// frame is the place of one panel: the rectangle between its axes, and what
// stands around it.
type frame struct {
	vg.Rectangle
	x, y     []tick
	labelled bool      // the x axis has its label
	left     vg.Length // where the labels of the y axis begin
}

// entry is one entry of the legend.
type entry struct {
	layer Layer
	x, y  vg.Length // left end, centre line
}

// stamp is what stands in a picture of something emulated.
const stamp = "SIMULATED"

func (f Figure) check() error {
	if len(f.Panels) == 0 {
		return fmt.Errorf("draw %s: %w: no panel", f.Kind, ErrEmpty)
	}
	if !(f.WidthPoints >= 150 && f.WidthPoints <= maxHeight) {
		return fmt.Errorf("draw %s: a width of %g points is not between 150 and %d", f.Kind, f.WidthPoints, maxHeight)
	}
	for _, p := range f.Panels {
		for _, a := range []Axis{p.X, p.Y} {
			if !(a.Max > a.Min) || math.IsInf(a.Max-a.Min, 0) || a.Log && !(a.Min > 0) {
				return fmt.Errorf("draw %s: the axis from %g to %g has no range", f.Kind, a.Min, a.Max)
			}
		}
	}
	return nil
}

// layout places everything: from the top title and notes, panels in rows, the
// legend.
func (f Figure) layout() (*layout, error) {
	if err := f.check(); err != nil {
		return nil, err
	}
	l := &layout{f: f, pen: newPen(), width: vg.Length(f.WidthPoints)}
	inner := l.width - 2*margin
	y := vg.Length(margin) + titleSize + 4
	for _, n := range f.Notes {
		l.notes = append(l.notes, l.pen.wrap(n, noteSize, inner)...)
	}
	y += vg.Length(len(l.notes)) * (noteSize + 3)
	y += 6
	l.columns = 1
	for k := 2; k <= len(f.Panels); k++ {
		if (inner-vg.Length(k-1)*gapX)/vg.Length(k) < vg.Length(f.Panels[0].MinWidthPoints) {
			break
		}
		l.columns = k
	}
	y = l.placePanels(y, inner)
	y = l.placeLegend(y+8, inner)
	l.height = y + margin
	if l.height > maxHeight {
		return nil, fmt.Errorf("draw %s: the picture would be %.0f points high, more than %d", f.Kind, float64(l.height), maxHeight)
	}
	l.turn()
	return l, nil
}

// placePanels puts the panels in rows below y, measured from the top, and
// returns where they end.
func (l *layout) placePanels(y, inner vg.Length) vg.Length {
	cell := (inner - vg.Length(l.columns-1)*gapX) / vg.Length(l.columns)
	left, right := l.sides()
	for i := 0; i < len(l.f.Panels); i += l.columns {
		row := l.f.Panels[i:min(i+l.columns, len(l.f.Panels))]
		height, top, bottom := vg.Length(0), vg.Length(0), vg.Length(0)
		for k, p := range row {
			height = max(height, vg.Length(p.HeightPoints))
			if p.Title != "" {
				top = axisSize + 5
			}
			bottom = max(bottom, tickLength+tickSize+5)
			if l.lowest(i + k) {
				bottom = tickLength + tickSize + axisSize + 9
			}
		}
		for k, p := range row {
			x := vg.Length(margin) + vg.Length(k)*(cell+gapX)
			r := vg.Rectangle{Min: vg.Point{X: x + left, Y: y + top}, Max: vg.Point{X: max(x+cell-right, x+left+20), Y: y + top + height}}
			f := l.frame(p, r, i+k)
			f.left = x
			l.frames = append(l.frames, f)
		}
		y += top + height + bottom + gapY
	}
	return y - gapY
}

// lowest reports whether panel i has none below it: there the x axis, which
// panels above each other share, has its label.
func (l *layout) lowest(i int) bool { return i+l.columns >= len(l.f.Panels) }

// sides is the room that ticks and labels take left and right of the panels.
func (l *layout) sides() (left, right vg.Length) {
	for _, p := range l.f.Panels {
		room := vg.Length(0)
		for _, t := range yTicks(p) {
			room = max(room, l.pen.width(t.label, tickSize, false))
		}
		for _, c := range p.Y.Categories {
			room = max(room, l.pen.width(c.Label, axisSize-1, c.Heading))
		}
		if room += tickLength + 4; p.Y.label() != "" {
			room += axisSize + 6
		}
		left = max(left, room)
		for _, layer := range p.Layers {
			for _, s := range layer.Text {
				if layer.Kind == Labels {
					right = max(right, l.pen.width(s, vg.Length(layer.Size), false)+6)
				}
			}
		}
	}
	return left, right
}

func yTicks(p Panel) []tick { return p.Y.ticks(max(4, int(p.HeightPoints/36))) }

// frame puts the ticks on the axes of panel i.
func (l *layout) frame(p Panel, r vg.Rectangle, i int) frame {
	length := r.Max.X - r.Min.X
	f := frame{Rectangle: r, y: yTicks(p), x: l.xTicks(p.X, length), labelled: l.lowest(i)}
	// The last label is centred on its tick and must not stand out.
	if n := len(f.x); n > 0 {
		last := f.x[n-1]
		out := r.Min.X + vg.Length(p.X.share(last.at))*length + l.pen.width(last.label, tickSize, false)/2 - (l.width - 2)
		if out > 0 {
			f.Max.X = max(r.Max.X-out, r.Min.X+20)
		}
	}
	return f
}

// xTicks returns as many ticks as stand beside each other without touching.
func (l *layout) xTicks(a Axis, length vg.Length) []tick {
	for n := max(2, int(length/30)); ; n-- {
		ticks := a.ticks(n)
		labelled := slices.DeleteFunc(slices.Clone(ticks), func(t tick) bool { return t.label == "" })
		fits := true
		for i := 1; i < len(labelled); i++ {
			gap := vg.Length(a.share(labelled[i].at)-a.share(labelled[i-1].at)) * length
			half := (l.pen.width(labelled[i].label, tickSize, false) + l.pen.width(labelled[i-1].label, tickSize, false)) / 2
			fits = fits && gap > half+6
		}
		if fits || n <= 1 {
			return ticks
		}
	}
}

// placeLegend puts the names of layers in lines below y, outside the data.
func (l *layout) placeLegend(y, inner vg.Length) vg.Length {
	const swatch, gap = 22, 16
	names := map[string]bool{"": true}
	x := vg.Length(margin)
	line := y + legendSize
	for _, p := range l.f.Panels {
		for _, layer := range p.Layers {
			if names[layer.Name] || len(l.legend) == maxLegend {
				continue
			}
			names[layer.Name] = true
			w := swatch + 4 + l.pen.width(layer.Name, legendSize, false)
			if x > margin && x+w > margin+inner {
				x, line = margin, line+legendSize+6
			}
			l.legend = append(l.legend, entry{layer, x, line})
			x += w + gap
		}
	}
	if len(l.legend) == 0 {
		return y
	}
	return line + legendSize/2
}

// turn makes lengths count from the bottom, as canvases do.
func (l *layout) turn() {
	for i := range l.frames {
		f := &l.frames[i]
		f.Min.Y, f.Max.Y = l.height-f.Max.Y, l.height-f.Min.Y
	}
	for i := range l.legend {
		l.legend[i].y = l.height - l.legend[i].y
	}
}

func (l *layout) draw(c draw.Canvas) {
	l.pen.c = c
	l.pen.fill(white, 1, c.Rectangle)
	top := l.height - margin
	room := l.width - 2*margin
	if l.f.Simulated {
		room -= l.pen.width(stamp, titleSize, true) + gapX
		l.pen.text(stamp, l.width-margin, top-titleSize/2, titleSize, true, vermilion, 1)
	}
	l.pen.text(l.pen.shorten(l.f.Title, titleSize, room), margin, top-titleSize/2, titleSize, true, black, 0)
	for i, n := range l.notes {
		l.pen.text(n, margin, top-titleSize-4-vg.Length(i)*(noteSize+3)-noteSize/2, noteSize, false, grey, 0)
	}
	for i, p := range l.f.Panels {
		l.panel(p, l.frames[i])
	}
	for _, e := range l.legend {
		l.swatch(e)
	}
}

// swatch draws one entry of the legend.
func (l *layout) swatch(e entry) {
	const w, h = 22, 8
	e.layer.Opacity = math.Max(e.layer.Opacity, 0.4) // one of many faint marks
	box := vg.Rectangle{Min: vg.Point{X: e.x, Y: e.y - h/2}, Max: vg.Point{X: e.x + w, Y: e.y + h/2}}
	ends := []vg.Point{{X: box.Min.X, Y: e.y}, {X: box.Max.X, Y: e.y}}
	switch e.layer.Kind {
	case Line:
		l.pen.stroke(e.layer, ends)
	case Intervals:
		l.pen.stroke(e.layer, ends)
	case Points:
		l.pen.point(e.layer, vg.Point{X: e.x + w/2, Y: e.y})
	default:
		l.pen.fill(e.layer.Color, e.layer.Opacity, box)
	}
	l.pen.text(e.layer.Name, e.x+w+4, e.y, legendSize, false, black, 0)
}
