package main

import (
	"fmt"

	"github.com/rscert/rscert/internal/report/summary"
	"github.com/rscert/rscert/internal/run"
	"github.com/rscert/rscert/internal/runfolder"
)

// addAudits adds each audit of --audit to the summary of the audited run. Without --audit, it adds the audits that it
// finds in the run folders.
func (o reportOptions) addAudits(runs []summary.Summary) error {
	if len(o.audits) > 0 {
		for _, dir := range o.audits {
			if err := addAudit(runs, dir); err != nil {
				return err
			}
		}
		return nil
	}
	for k := range runs {
		if runs[k].Run == nil {
			continue
		}
		e, err := runfolder.Find(runs[k].Path)
		if err != nil {
			return err
		}
		dir, err := run.FindAudit(e)
		if err != nil {
			return err
		}
		if dir == "" {
			continue
		}
		if err := addAudit(runs[k:k+1], dir); err != nil {
			return err
		}
	}
	return nil
}

// addAudit reads the audit in a folder, and adds it to the summary of the audited run.
func addAudit(runs []summary.Summary, dir string) error {
	of, err := run.AuditedDigest(dir)
	if err != nil {
		return err
	}
	for k, s := range runs {
		if s.Run == nil || s.Run.Digest() != of {
			continue
		}
		e, err := runfolder.Find(s.Path)
		if err != nil {
			return err
		}
		found, err := run.ReadAudit(dir, e)
		if err != nil {
			return err
		}
		c := found.Contradictions
		runs[k].AddAudit(summary.Audit{
			Folder: dir, Gamma: found.Gamma, Contradictions: c.Count, MoreThanChance: c.MoreThanChance, Broken: found.Broken(),
		})
		return nil
	}
	return fmt.Errorf("--audit %s: is an audit of none of the runs", dir)
}
