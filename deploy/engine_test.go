package deploy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
)

// query evaluates an expression at a time after the first sample. The series are
// in the form of unit tests of rules (`up{job="a"} 1x5 stale`), a line for each,
// with a sample a minute.
func query(t *testing.T, expr, load string, at time.Duration) (found []string) {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e6, Timeout: time.Minute})
	defer engine.Close()
	origin := time.Unix(0, 0)
	var all memory
	for line := range strings.Lines(load) {
		name, values, err := parser.ParseSeriesDesc(strings.TrimSpace(line))
		if err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		s := series{labels: name}
		for i, v := range values {
			if !v.Omitted {
				s.samples = append(s.samples, sample{origin.Add(time.Duration(i) * time.Minute).UnixMilli(), v.Value})
			}
		}
		all = append(all, s)
	}
	q, err := engine.NewInstantQuery(t.Context(), all, nil, expr, origin.Add(at))
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	vector, err := q.Exec(t.Context()).Vector()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range vector {
		found = append(found, fmt.Sprintf("%s %.6g", s.Metric, s.F))
	}
	slices.Sort(found)
	return found
}

// memory is a storage.Queryable.
type memory []series

type series struct {
	labels  labels.Labels
	samples []chunks.Sample
}

func (m memory) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		found := &seriesSet{at: -1}
		for _, s := range m {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.labels.Get(m.Name)) }) {
				found.all = append(found.all, storage.NewListSeries(s.labels, s.samples))
			}
		}
		return found
	}}, nil
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                        { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series                { return s.all[s.at] }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

type sample struct {
	at    int64 // ms
	value float64
}

func (s sample) T() int64                      { return s.at }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.value }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
