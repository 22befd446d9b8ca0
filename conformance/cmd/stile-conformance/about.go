package main

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/stile-lock/stile/conformance/report"
	"github.com/stile-lock/stile/conformance/suite"
	"github.com/stile-lock/stile/features"
)

// halves are the feature files by the name of their half.
func halves() map[string]fs.FS {
	return map[string]fs.FS{"server": features.Server(), "client": features.Client(), "cluster": features.Cluster()}
}

type listCommand struct {
	Half string `arg:"" optional:"" enum:"server,client,cluster," default:"" help:"server, client or cluster. Default: all."`
	Tags string `help:"Only scenarios with these tags: a comma stands for or, && for and, ~ for not."`
}

func (c *listCommand) Run() error {
	if err := suite.CheckTags(c.Tags); err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	defer out.Flush()
	all := halves()
	for _, half := range []string{"server", "client", "cluster"} {
		if c.Half != "" && c.Half != half {
			continue
		}
		list, err := suite.Scenarios(all[half])
		if err != nil {
			return err
		}
		for _, s := range list {
			if !suite.Selected(c.Tags, s.Tags) {
				continue
			}
			var tags []string
			for _, t := range s.Tags {
				if !strings.HasPrefix(s.ID, t) {
					tags = append(tags, "@"+t)
				}
			}
			fmt.Fprintf(out, "%s\t%s\t%s\n", s.ID, strings.Join(tags, " "), s.Name)
		}
	}
	return nil
}

// shownProblems are the first ones of a certificate that does not fit: one that
// is of other feature files may have a problem for each scenario.
const shownProblems = 10

type verifyCommand struct {
	Certificate string `arg:"" type:"existingfile" help:"The certificate. Exit code 0: it is in order and certifies a profile."`
}

func (c *verifyCommand) Run() error {
	text, err := os.ReadFile(c.Certificate)
	if err != nil {
		return err
	}
	cert, err := report.ParseCertificate(text)
	if err != nil {
		return err
	}
	if cert.Suite != suite.Version {
		return fmt.Errorf("the certificate is of suite %s; this is %s, and can't say anything about it", cert.Suite, suite.Version)
	}
	files, ok := halves()[cert.Half]
	if !ok {
		return fmt.Errorf("the certificate is of half %q, which this suite does not have", cert.Half)
	}
	digest, err := suite.Digest(files)
	if err != nil {
		return err
	}
	list, err := suite.Scenarios(files)
	if err != nil {
		return err
	}
	known := map[string]report.Known{}
	for _, s := range list {
		known[s.ID] = report.Known{Profile: s.Profile, Must: s.Must, Optional: s.Conditional()}
	}
	if problems := cert.Verify(digest, known); len(problems) > 0 {
		fmt.Printf("not in order: %s, of %s\n", cert.Target, cert.Date.Format("2006-01-02"))
		for _, p := range problems[:min(len(problems), shownProblems)] {
			fmt.Println("  " + report.Printable(p))
		}
		if more := len(problems) - shownProblems; more > 0 {
			fmt.Printf("and %d more\n", more)
		}
		return verdict(report.NotConformant)
	}
	fmt.Printf("in order: %s, of %s\n", cert.Target, cert.Date.Format("2006-01-02"))
	if len(cert.Passed()) == 0 {
		fmt.Println("It certifies no profile: some scenarios failed or were not judged, or not all were run.")
		return verdict(report.NotConformant)
	}
	fmt.Printf("profiles: %s\n", strings.Join(cert.Passed(), ", "))
	fmt.Println("A certificate is not signed: who doubts it runs the suite.")
	return nil
}
