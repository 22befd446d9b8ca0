package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
)

// common are the flags of every command that runs scenarios.
type common struct {
	Profile     []string `help:"Judge these profiles. Default: those that the target says it has." placeholder:"core,keep"`
	Tags        string   `help:"Of these profiles, run only scenarios with these tags, ids among them: a comma stands for or, && for and, ~ for not. A certificate needs all." placeholder:"@S-6.2-fifo,@keep&&~@timed"`
	Seed        int64    `help:"Order of the scenarios. Default: a random one, which is printed."`
	Concurrency int      `help:"How many scenarios run at once. Default: what suits the target."`

	KnownFailures string `type:"existingfile" placeholder:"FILE" help:"Scenarios that are known to fail: an id or a pattern, # and a part of the failure's text on each line. They still run; one that passes or fails in another way is an error."`

	Software     string `placeholder:"NAME" help:"Name and version of what is judged, for the reports and the certificate: a server does not tell them, and the suite does not check them."`
	JUnit        string `name:"junit" placeholder:"FILE" help:"Write a JUnit report."`
	CucumberJSON string `name:"cucumber-json" placeholder:"FILE" help:"Write a Cucumber JSON report."`
	HTML         string `name:"html" placeholder:"FILE" help:"Write a page with every scenario, its steps and its transcript."`
	Certificate  string `placeholder:"FILE" help:"Write the certificate (JSON)."`
	Badge        string `placeholder:"FILE" help:"Write a badge (SVG)."`
	Verbose      bool   `short:"v" help:"Print every scenario, with its steps and all that was sent and received."`
}

// reportFile is a report to write.
type reportFile struct {
	flag, file string
	write      func(io.Writer, *report.Run) error
}

func (c *common) reports() (asked []reportFile) {
	for _, r := range []reportFile{
		{"--junit", c.JUnit, report.JUnit},
		{"--cucumber-json", c.CucumberJSON, report.CucumberJSON},
		{"--html", c.HTML, report.HTML},
		{"--certificate", c.Certificate, report.WriteCertificate},
		{"--badge", c.Badge, report.Badge},
	} {
		if r.file != "" {
			asked = append(asked, r)
		}
	}
	return asked
}

// check finds what is wrong with the flags before anything is run.
func (c *common) check() error {
	if c.Concurrency < 0 {
		return fmt.Errorf("--concurrency %d: give 1 or more", c.Concurrency)
	}
	for _, p := range c.Profile {
		if p == "" {
			return errors.New("--profile: a name is empty")
		}
	}
	for _, r := range c.reports() {
		// Now rather than after a run of minutes.
		tmp, err := os.CreateTemp(filepath.Dir(r.file), filepath.Base(r.file)+".*")
		if err != nil {
			return fmt.Errorf("%s: a file can't be written there: %w", r.flag, err)
		}
		tmp.Close()
		os.Remove(tmp.Name())
	}
	return nil
}

// run runs a half and writes the reports.
func (c *common) run(ctx context.Context, half suite.Half) error {
	if err := c.check(); err != nil {
		return err
	}
	config := suite.Config{Software: c.Software, Profiles: c.Profile, Tags: c.Tags, Seed: c.Seed, Concurrency: c.Concurrency}
	if c.KnownFailures != "" {
		f, err := os.Open(c.KnownFailures)
		if err != nil {
			return err
		}
		defer f.Close()
		if config.Ledger, err = suite.ParseLedger(f, c.KnownFailures); err != nil {
			return err
		}
	}
	t := report.NewTerminal(os.Stdout, c.Verbose)
	config.Begin, config.Done = t.Begin, t.Done
	run, err := suite.Run(ctx, half, config)
	if err != nil {
		return err
	}
	t.End(run)
	for _, r := range c.reports() {
		if err := write(r.file, run, r.write); err != nil {
			return fmt.Errorf("%s: writing the report: %w", r.flag, err)
		}
	}
	if v := run.Verdict(); v != report.Conformant {
		return verdict(v)
	}
	return nil
}

// write replaces a file as a whole or not at all.
func write(name string, run *report.Run, f func(io.Writer, *report.Run) error) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	err = f(tmp, run)
	if err2 := tmp.Close(); err == nil {
		err = err2
	}
	if err != nil {
		return err
	}
	os.Chmod(tmp.Name(), 0o644)
	return os.Rename(tmp.Name(), name)
}
