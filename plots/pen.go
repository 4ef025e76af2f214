package plots

import (
	"image/color"
	"math"
	"strconv"
	"strings"
	"sync"

	"codeberg.org/go-fonts/liberation/liberationsansbold"
	"codeberg.org/go-fonts/liberation/liberationsansregular"
	xfont "golang.org/x/image/font"
	"golang.org/x/image/font/opentype"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// faces holds Liberation Sans, parsed once.
var faces = sync.OnceValue(func() *font.Cache {
	face := func(weight xfont.Weight, data []byte) font.Face {
		f, err := opentype.Parse(data)
		if err != nil {
			panic("plots: font in the program: " + err.Error())
		}
		return font.Face{Font: font.Font{Typeface: "Liberation", Variant: "Sans", Weight: weight}, Face: f}
	}
	return font.NewCache(font.Collection{
		face(xfont.WeightNormal, liberationsansregular.TTF),
		face(xfont.WeightBold, liberationsansbold.TTF),
	})
})

// pen draws on a canvas; lengths are points.
type pen struct {
	c     vg.Canvas
	fonts *font.Cache
}

func newPen() pen { return pen{fonts: faces()} }

func (p pen) face(size vg.Length, bold bool) font.Face {
	f := font.Font{Typeface: "Liberation", Variant: "Sans"}
	if bold {
		f.Weight = xfont.WeightBold
	}
	return p.fonts.Lookup(f, size)
}

func (p pen) width(s string, size vg.Length, bold bool) vg.Length {
	f := p.face(size, bold)
	w := vg.Length(0)
	for _, part := range unkerned(s) {
		w += f.Width(part)
	}
	return w
}

// unkerned cuts a text between two ones: the font draws them closer to each
// other than other digits, which looks like one blurred digit.
func unkerned(s string) []string {
	var parts []string
	from := 0
	for i := 1; i < len(s); i++ {
		if s[i] == '1' && s[i-1] == '1' {
			parts, from = append(parts, s[from:i]), i
		}
	}
	return append(parts, s[from:])
}

// write writes s from x on, its base line at y.
func (p pen) write(s string, x, y, size vg.Length, bold bool) {
	f := p.face(size, bold)
	for _, part := range unkerned(s) {
		p.c.FillString(f, vg.Point{X: x, Y: y}, part)
		x += f.Width(part)
	}
}

// wrap breaks a text into lines of a width.
func (p pen) wrap(s string, size, width vg.Length) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		switch {
		case line == "":
			line = w
		case p.width(line+" "+w, size, false) <= width:
			line += " " + w
		default:
			lines, line = append(lines, line), w
		}
	}
	return append(lines, line)
}

// shorten cuts a bold text to a width.
func (p pen) shorten(s string, size, width vg.Length) string {
	if p.width(s, size, true) <= width {
		return s
	}
	r := []rune(s)
	for len(r) > 1 && p.width(string(r)+"…", size, true) > width {
		r = r[:len(r)-1]
	}
	return string(r) + "…"
}

// capShare is half the height of capitals in sizes of Liberation Sans, by
// which text is centred on a line.
const capShare = 0.36

// text writes s with its middle line at y; align 0 begins at x, 0.5 centres, 1
// ends there.
func (p pen) text(s string, x, y, size vg.Length, bold bool, c Color, align vg.Length) {
	if s == "" {
		return
	}
	p.c.SetColor(c.with(1))
	p.write(s, x-align*p.width(s, size, bold), y-capShare*size, size, bold)
}

// upright writes s from below to above, centred at (x, y).
func (p pen) upright(s string, x, y, size vg.Length) {
	p.c.Push()
	p.c.SetColor(black.with(1))
	p.c.Translate(vg.Point{X: x, Y: y})
	p.c.Rotate(math.Pi / 2)
	p.write(s, -p.width(s, size, false)/2, -capShare*size, size, false)
	p.c.Pop()
}

func (p pen) stroke(l Layer, points []vg.Point) {
	if len(points) < 2 || !finite(points) {
		return
	}
	style := draw.LineStyle{Color: l.Color.with(l.Opacity), Width: vg.Length(l.Size)}
	if l.Dashed {
		style.Dashes = []vg.Length{4, 2}
	}
	c := draw.Canvas{Canvas: p.c}
	c.StrokeLines(style, points)
}

func (p pen) polygon(c Color, opacity float64, points []vg.Point) {
	if len(points) < 3 || !finite(points) {
		return
	}
	canvas := draw.Canvas{Canvas: p.c}
	canvas.FillPolygon(c.with(opacity), points)
}

func (p pen) fill(c Color, opacity float64, r vg.Rectangle) {
	p.polygon(c, opacity, []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}})
}

func (p pen) point(l Layer, at vg.Point) {
	if !finite([]vg.Point{at}) {
		return
	}
	r := vg.Length(l.Size)
	if l.Cross {
		line := Layer{Color: l.Color, Opacity: l.Opacity, Size: 1.2}
		p.stroke(line, []vg.Point{{X: at.X - r, Y: at.Y - r}, {X: at.X + r, Y: at.Y + r}})
		p.stroke(line, []vg.Point{{X: at.X - r, Y: at.Y + r}, {X: at.X + r, Y: at.Y - r}})
		return
	}
	var path vg.Path
	path.Move(vg.Point{X: at.X + r, Y: at.Y})
	path.Arc(at, r, 0, 2*math.Pi)
	path.Close()
	p.c.SetColor(l.Color.with(l.Opacity))
	p.c.Fill(path)
}

// with is the colour with an opacity; what is no colour is black.
func (c Color) with(opacity float64) color.Color {
	var v uint64
	if len(c) == 7 && c[0] == '#' {
		v, _ = strconv.ParseUint(string(c[1:]), 16, 32)
	}
	return color.NRGBA{uint8(v >> 16), uint8(v >> 8), uint8(v), uint8(math.Round(255 * math.Min(math.Max(opacity, 0), 1)))}
}
