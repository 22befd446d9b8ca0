package report

import (
	"fmt"
	"html"
	"io"
	"math"
	"strings"

	"github.com/stile-lock/stile/bench/load"
)

const (
	width, height = 860, 300
	left, right   = 80, 20
	top, bottom   = 44, 40
)

var colours = []string{"#1f6feb", "#d1242f", "#1a7f37", "#9a6700"}

type curve struct {
	name string
	ys   []float64
}

// chart is one diagram over a common x axis.
type chart struct {
	title, xName string
	xs           []float64
	xLabel       func(float64) string
	yLabel       func(float64) string
	log          bool // y
	curves       []curve
}

// SVG writes throughput and latency over time, and latency by percentile, as
// one picture that needs nothing else.
func SVG(w io.Writer, r *load.Result) error {
	charts := charts(r)
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">`+"\n",
		width, height*len(charts), width, height*len(charts))
	b.WriteString(`<rect width="100%" height="100%" fill="#ffffff"/>` + "\n")
	for i, c := range charts {
		fmt.Fprintf(&b, `<g transform="translate(0 %d)">`+"\n", i*height)
		c.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// HTML writes a page with the text of the result and its picture.
func HTML(w io.Writer, r *load.Result) error {
	var text, picture strings.Builder
	Text(&text, r)
	if err := SVG(&picture, r); err != nil {
		return err
	}
	title := html.EscapeString(fmt.Sprintf("stile-bench: %s, %d × %d", r.Driver, r.Plan.Connections, r.Plan.Depth))
	_, err := fmt.Fprintf(w, `<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"/><title>%s</title>
<style>body { font-family: sans-serif; margin: 2em; background: #fff; color: #1f2328 } pre { overflow-x: auto }</style></head>
<body><h1>%s</h1>
<p>%s</p>
<pre>%s</pre>
%s</body>
</html>
`, title, title, r.Started.Format("2006-01-02 15:04:05 MST"), html.EscapeString(text.String()), picture.String())
	return err
}

func charts(r *load.Result) []chart {
	var seconds []float64
	throughput, p50, p99, most := curve{name: "pairs/s"}, curve{name: "acquire p50"}, curve{name: "acquire p99"}, curve{name: "acquire max"}
	release := curve{name: "release p99"}
	for _, p := range r.Series {
		seconds = append(seconds, p.Second)
		throughput.ys = append(throughput.ys, p.PairsPerSec)
		p50.ys = append(p50.ys, p.AcquireP50)
		p99.ys = append(p99.ys, p.AcquireP99)
		most.ys = append(most.ys, p.AcquireMax)
		release.ys = append(release.ys, p.ReleaseP99)
	}
	second := func(x float64) string { return fmt.Sprintf("%.4gs", x) }
	// The percentiles are drawn by how many nines they have.
	shares := []float64{0.50, 0.75, 0.90, 0.99, 0.999, 0.9999}
	names := map[float64]string{}
	var nines []float64
	for _, s := range shares {
		n := -math.Log10(1 - s)
		nines = append(nines, n)
		names[n] = fmt.Sprintf("p%.6g", 100*s)
	}
	var corrected []curve
	of := func(l load.Latency) []float64 { return []float64{l.P50, l.P75, l.P90, l.P99, l.P999, l.P9999} }
	if r.Corrected != nil {
		corrected = []curve{{"corrected", of(*r.Corrected)}}
	}
	return []chart{
		{title: "Throughput over time", xName: "time since the warm-up", xs: seconds, xLabel: second, yLabel: count, curves: []curve{throughput}},
		{title: "Latency over time", xName: "time since the warm-up", xs: seconds, xLabel: second, yLabel: Micros, log: true, curves: []curve{p50, p99, most, release}},
		{title: "Latency by percentile", xName: "percentile", xs: nines, xLabel: func(x float64) string { return names[x] }, yLabel: Micros, log: true,
			curves: append([]curve{{"acquire", of(r.Acquire)}, {"release", of(r.Release)}}, corrected...)},
	}
}

func count(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.4gM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.4gk", n/1e3)
	}
	return fmt.Sprintf("%.4g", n)
}

func (c *chart) draw(b *strings.Builder) {
	text := func(x, y float64, anchor, s string) {
		fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" fill="#1f2328">%s</text>`+"\n", x, y, anchor, html.EscapeString(s))
	}
	fmt.Fprintf(b, `<text x="%d" y="20" font-size="15" fill="#1f2328">%s</text>`+"\n", left, html.EscapeString(c.title))
	low, high := c.span()
	x := c.across()
	y := func(v float64) float64 {
		share := (v - low) / (high - low)
		if c.log {
			share = math.Log(max(v, low)/low) / math.Log(high/low)
		}
		return float64(height-bottom) - share*float64(height-top-bottom)
	}
	for _, v := range c.ticks(low, high) {
		fmt.Fprintf(b, `<line x1="%d" y1="%.1f" x2="%d" y2="%.1f" stroke="#d0d7de"/>`+"\n", left, y(v), width-right, y(v))
		text(left-6, y(v)+4, "end", c.yLabel(v))
	}
	for i, n := 0, len(c.xs); i < n; i += (n + 9) / 10 {
		text(x(c.xs[i]), height-bottom+18, "middle", c.xLabel(c.xs[i]))
	}
	text(width-right, height-4, "end", c.xName)
	for i, cv := range c.curves {
		colour := colours[i%len(colours)]
		var points []string
		for j, v := range cv.ys {
			// An interval in which nothing ended has no latency: the curve goes
			// straight over it.
			if c.log && v <= 0 {
				continue
			}
			points = append(points, fmt.Sprintf("%.1f,%.1f", x(c.xs[j]), y(v)))
		}
		fmt.Fprintf(b, `<polyline fill="none" stroke="%s" stroke-width="1.5" points="%s"/>`+"\n", colour, strings.Join(points, " "))
		at := left + 220 + 120*i
		fmt.Fprintf(b, `<rect x="%d" y="11" width="10" height="10" fill="%s"/>`+"\n", at, colour)
		text(float64(at+14), 20, "start", cv.name)
	}
}

// across maps the x axis to the picture.
func (c *chart) across() func(float64) float64 {
	if len(c.xs) < 2 {
		return func(float64) float64 { return (left + width - right) / 2 }
	}
	first, last := c.xs[0], c.xs[len(c.xs)-1]
	return func(v float64) float64 { return left + (v-first)/(last-first)*(width-left-right) }
}

// span is what the y axis reaches over.
func (c *chart) span() (low, high float64) {
	for _, cv := range c.curves {
		for _, v := range cv.ys {
			high = max(high, v)
			if v > 0 && (low == 0 || v < low) {
				low = v
			}
		}
	}
	if high == 0 {
		low, high = 1, 10
	}
	if !c.log {
		return 0, high * 1.1
	}
	low = math.Pow(10, math.Floor(math.Log10(low)))
	return low, max(math.Pow(10, math.Ceil(math.Log10(high))), 10*low)
}

func (c *chart) ticks(low, high float64) (at []float64) {
	if c.log {
		for v := low; v <= high*1.001; v *= 10 {
			at = append(at, v)
		}
		return at
	}
	step := math.Pow(10, math.Floor(math.Log10(high)))
	for high/step < 4 {
		step /= 2
	}
	for v := low; v <= high; v += step {
		at = append(at, v)
	}
	return at
}
