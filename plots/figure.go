// Package plots makes figures of results: a Figure is plain data, built by
// pure functions, and drawn as SVG or PNG.
package plots

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode"

	"github.com/joulemark/joulemark/analysis"
)

// Schema of the JSON of a Figure.
const Schema = "joulemark.figure/1"

// Kind says what a figure shows.
type Kind string

const (
	TraceKind   Kind = "trace"   // power against time, with windows and baseline
	BarsKind    Kind = "bars"    // energy per operation with its intervals
	EdgesKind   Kind = "edges"   // edges of power folded onto each other
	RepeatsKind Kind = "repeats" // windows in the order of the run
)

// Kinds of figures, in the order in which they are drawn.
func Kinds() []Kind { return []Kind{TraceKind, BarsKind, EdgesKind, RepeatsKind} }

// ErrEmpty says that there is nothing to draw.
var ErrEmpty = errors.New("nothing to draw")

// Figure is everything that is drawn, in SI base units.
type Figure struct {
	Schema string `json:"schema"`
	Kind   Kind   `json:"kind"`
	Title  string `json:"title"`
	// Notes stand in small print below the title.
	Notes []string `json:"notes"`
	// Simulated puts that word into the picture.
	Simulated bool `json:"simulated"`
	// WidthPoints is the width of the picture (1/72 inch); its height follows
	// from the panels. Text does not scale with it.
	WidthPoints float64 `json:"width_pt"`
	Panels      []Panel `json:"panels"`
}

// DefaultWidth of a figure, points: 1,200 pixels at 96 dots an inch.
const DefaultWidth = 900

// Panel is one pair of axes with what is drawn between them.
type Panel struct {
	Title  string  `json:"title,omitempty"`
	X      Axis    `json:"x"`
	Y      Axis    `json:"y"`
	Layers []Layer `json:"layers"`
	// MinWidthPoints is the room that a panel needs: as many stand beside each
	// other as fit. HeightPoints is the height between the axes.
	MinWidthPoints float64 `json:"min_width_pt"`
	HeightPoints   float64 `json:"height_pt"`
}

// Axis is a quantity in a base unit, or a list of categories.
type Axis struct {
	Quantity string  `json:"quantity,omitempty"`
	Unit     string  `json:"unit,omitempty"` // base unit; ticks carry the prefix
	Min      float64 `json:"min"`
	Max      float64 `json:"max"`
	Log      bool    `json:"log,omitempty"`
	// Categories replace numbers as ticks.
	Categories []Category `json:"categories,omitempty"`
}

// Category is a named place on an axis.
type Category struct {
	At      float64 `json:"at"`
	Label   string  `json:"label"`
	Heading bool    `json:"heading,omitempty"` // names the group below it
}

// LayerKind says how the numbers of a layer are drawn.
type LayerKind string

const (
	Line      LayerKind = "line"      // through X, Y; a null breaks it
	Band      LayerKind = "band"      // at X from Lo to Hi; a null breaks it
	BarLayer  LayerKind = "bars"      // at Y from 0 (log: the left end) to X; Size is their share of a row
	Intervals LayerKind = "intervals" // at Y from Lo to Hi on the x axis; cut at its ends
	Points    LayerKind = "points"    // at X, Y
	Spans     LayerKind = "spans"     // from Lo to Hi on the x axis, over the whole height; Text where it fits
	Labels    LayerKind = "labels"    // Text right of the panel at Y
)

// Layer is one set of marks of one colour. A null is a place without a value.
type Layer struct {
	Kind LayerKind `json:"kind"`
	// Name stands in the legend, once for all layers that share it; "" does not.
	Name    string  `json:"name,omitempty"`
	Color   Color   `json:"color"`
	Opacity float64 `json:"opacity"`
	Size    float64 `json:"size,omitempty"` // points: width of lines, radius of points, height of text
	Dashed  bool    `json:"dashed,omitempty"`
	Cross   bool    `json:"cross,omitempty"` // points are crosses

	X    []analysis.Num `json:"x,omitempty"`
	Y    []analysis.Num `json:"y,omitempty"`
	Lo   []analysis.Num `json:"lo,omitempty"`
	Hi   []analysis.Num `json:"hi,omitempty"`
	Text []string       `json:"text,omitempty"`
}

// Color is #RRGGBB.
type Color string

// The palette of Okabe and Ito (Color Universal Design, 2008), which people
// with any kind of colour vision tell apart, and greys.
const (
	black     Color = "#000000"
	orange    Color = "#E69F00"
	sky       Color = "#56B4E9"
	green     Color = "#009E73"
	yellow    Color = "#F0E442"
	blue      Color = "#0072B2"
	vermilion Color = "#D55E00"
	purple    Color = "#CC79A7"
	grey      Color = "#7F7F7F"
	pale      Color = "#D9D9D9"
	white     Color = "#FFFFFF"
)

// runColors tell runs apart.
var runColors = []Color{blue, orange, green, purple, sky, vermilion, yellow, grey}

// operations in the order in which figures show them, with their colours.
var operations = []struct {
	op    string
	color Color
}{
	{"keygen", blue}, {"sign", vermilion}, {"verify", green}, {"encaps", orange},
	{"decaps", sky}, {"derive", purple}, {"kem+sig", yellow}, {"run", sky},
}

// opOrder is the place of an operation in figures; unknown ones stand last.
func opOrder(op string) int {
	for i, o := range operations {
		if o.op == op {
			return i
		}
	}
	return len(operations)
}

func opColor(op string) Color {
	if i := opOrder(op); i < len(operations) {
		return operations[i].color
	}
	return sky
}

// maxLabel is the longest name that a figure shows, in characters.
const maxLabel = 48

// label makes a name from a recording fit to be drawn: printable and short.
func label(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxLabel {
		s = string(r[:maxLabel-1]) + "…"
	}
	return s
}

// runLabel names a run with its target's width.
func runLabel(r analysis.Results) string {
	if r.Target.Bits > 0 {
		return fmt.Sprintf("%s (%d bit)", label(r.Run), r.Target.Bits)
	}
	return label(r.Run)
}

func newFigure(kind Kind, title string, simulated bool, notes ...string) Figure {
	return Figure{Schema: Schema, Kind: kind, Title: title, Notes: notes, Simulated: simulated, WidthPoints: DefaultWidth}
}

// extent is the range of some numbers; what is not stated does not count.
type extent struct{ lo, hi float64 }

func newExtent() extent { return extent{math.Inf(1), math.Inf(-1)} }

func (e *extent) add(values ...analysis.Num) {
	for _, v := range values {
		if v.Stated() {
			e.lo, e.hi = math.Min(e.lo, float64(v)), math.Max(e.hi, float64(v))
		}
	}
}

func (e extent) empty() bool { return e.lo > e.hi }

// padded leaves room of a share of the range on both sides, and some where the
// range is a single value.
func (e extent) padded(share float64) extent {
	room := share * (e.hi - e.lo)
	if least := 1e-6 * math.Max(math.Abs(e.lo), math.Abs(e.hi)); room < least {
		room = math.Max(least, 0.05*math.Abs(e.hi))
	}
	if room == 0 {
		room = 1
	}
	return extent{e.lo - room, e.hi + room}
}

// nums converts to what a layer holds.
func nums(v []float64) []analysis.Num {
	out := make([]analysis.Num, len(v))
	for i, x := range v {
		out[i] = analysis.Num(x)
	}
	return out
}

var null = analysis.Num(math.NaN())
