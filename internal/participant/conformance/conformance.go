// Package conformance asks a participant, over gRPC alone, whether it keeps the
// rules of docs/participants.md. It knows nothing of how a participant is built,
// so that it serves any, in whatever language it is written. Each run takes new
// tenants and keys: it may be run again on the same participant.
package conformance

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"giro/internal/rpc"
)

// Config says what is asked, and how. The zero value of a field stands for its
// default.
type Config struct {
	// Target is the participant's host:port.
	Target string
	// Restart stops the participant and starts it again on the same books. It may
	// return before the participant answers. Without it the rules about restarts are
	// not run.
	Restart func(context.Context) error
	// Rules names those to run; default all.
	Rules []string
	// Progress, if set, is told each result as it comes.
	Progress func(Result)
}

// Rule is one thing that a participant must keep.
type Rule struct {
	// Name is the rule's, for ever.
	Name string `json:"name"`
	// Demands says in one line what it asks for.
	Demands string `json:"demands"`
	// Section is the one of docs/participants.md that says it whole.
	Section string `json:"section"`
}

// rule is a Rule with what finds out whether it is kept.
type rule struct {
	Rule
	// run makes the calls and judges the answers.
	run func(*check)
	// over makes calls, and gives what judges them after a restart. A rule has
	// either run or over.
	over func(*check) func()
}

// Bounds of the first greeting, of a call, of all attempts at it, of a rule and of
// the restart command. A participant that is slower than this is of no use to an
// orchestrator.
const (
	meetSeconds    = 5
	callSeconds    = 10
	ruleSeconds    = 90
	answerSeconds  = 30
	restartSeconds = 120
)

// Rules lists every rule in the order in which they are run.
func Rules() []Rule {
	var list []Rule
	for _, r := range rules() {
		list = append(list, r.Rule)
	}
	return list
}

func rules() []rule {
	return slices.Concat(describeRules, outcomeRules, repeatRules, contentsRules, refusalRules, refundRules, cancelRules,
		lookupRules, batchRules, validityRules, tenantRules, raceRules, lostRules, listRules, restartRules, lastRules)
}

// Run asks the participant. An error says that nothing could be found out: the
// rules' names are not known, or nobody answers. What the participant does wrong
// is in the report.
func Run(ctx context.Context, config Config) (Report, error) {
	chosen, err := choose(config.Rules)
	if err != nil {
		return Report{}, err
	}
	conn, err := rpc.Dial(config.Target)
	if err != nil {
		return Report{}, fmt.Errorf("address %q: %w", config.Target, err)
	}
	defer conn.Close()
	var random [5]byte
	rand.Read(random[:]) // never fails
	s := &suite{config: config, peer: newPeer(conn), run: hex.EncodeToString(random[:])}
	if err := s.peer.meet(ctx, meetSeconds*time.Second); err != nil {
		return Report{}, fmt.Errorf("nobody who speaks giro.participant.v1 answers at %s: %w", config.Target, err)
	}
	ctx, cancel := context.WithCancel(ctx) // ends what a rule may have left running
	defer cancel()
	s.report = Report{Target: config.Target, Participant: s.peer.describe.GetParticipant(), Started: time.Now().UTC(), RulesKnown: len(rules())}
	s.runAll(ctx, chosen)
	s.report.Seconds = time.Since(s.report.Started).Seconds()
	return s.report, ctx.Err()
}

func choose(names []string) ([]rule, error) {
	all := rules()
	if len(names) == 0 {
		return all, nil
	}
	var unknown []string
	for _, name := range names {
		if !slices.ContainsFunc(all, func(r rule) bool { return r.Name == name }) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		return nil, fmt.Errorf("there is no rule %s", strings.Join(unknown, ", "))
	}
	return slices.DeleteFunc(all, func(r rule) bool { return !slices.Contains(names, r.Name) }), nil
}

// suite is one run.
type suite struct {
	config  Config
	peer    *peer
	run     string
	tenants []string
	report  Report
}

// runAll runs the rules in order. Those about a restart all make their calls
// first, so that one restart serves them all.
func (s *suite) runAll(ctx context.Context, chosen []rule) {
	var waiting []*pending
	restarted := false
	for i, r := range chosen {
		if ctx.Err() != nil {
			return
		}
		if r.over == nil {
			s.note(s.try(ctx, r, r.run))
			continue
		}
		if !restarted {
			restarted = true
			for _, other := range chosen[i:] {
				if other.over != nil {
					waiting = append(waiting, s.prepare(ctx, other))
				}
			}
			s.restart(ctx, waiting)
		}
		p := waiting[0]
		waiting = waiting[1:]
		if p.result.Verdict == Passed {
			p.result = s.judge(r, p.check, func(*check) { p.judge() })
		}
		if p.check.end != nil { // also where the restart failed: later rules count what stands still
			p.check.end()
		}
		s.note(p.result)
	}
}

func (s *suite) note(r Result) {
	s.report.Results = append(s.report.Results, r)
	if s.config.Progress != nil {
		s.config.Progress(r)
	}
}

// try runs one rule, in a tenant of its own.
func (s *suite) try(ctx context.Context, r rule, run func(*check)) Result {
	ctx, cancel := context.WithTimeout(ctx, ruleSeconds*time.Second)
	defer cancel()
	return s.judge(r, s.newCheck(ctx), run)
}

func (s *suite) newCheck(ctx context.Context) *check {
	c := &check{suite: s, ctx: ctx, peer: s.peer}
	c.tenant = c.newTenant()
	return c
}

// judge runs a function that ends early where a rule is broken or cannot be run.
func (s *suite) judge(r rule, c *check, run func(*check)) (result Result) {
	started := time.Now()
	result = Result{Rule: r.Rule, Verdict: Passed}
	defer func() {
		result.Seconds = time.Since(started).Seconds()
		switch end := recover().(type) {
		case nil:
		case notRun:
			result.Verdict, result.Reason = NotRun, string(end)
		case Failure:
			result.Verdict, result.Failure = Failed, &end
		default:
			panic(end)
		}
	}()
	run(c)
	return result
}

// pending is a rule that waits for the restart.
type pending struct {
	check  *check
	judge  func()
	result Result
}

func (s *suite) prepare(ctx context.Context, r rule) *pending {
	p := &pending{check: s.newCheck(ctx)}
	p.result = s.judge(r, p.check, func(c *check) {
		if s.config.Restart == nil {
			c.notRun("no restart command was given")
		}
		p.judge = r.over(c)
	})
	return p
}

// restart restarts the participant if any rule has come so far.
func (s *suite) restart(ctx context.Context, waiting []*pending) {
	if !slices.ContainsFunc(waiting, func(p *pending) bool { return p.result.Verdict == Passed }) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, restartSeconds*time.Second)
	defer cancel()
	end := func(verdict Verdict, reason string, failure *Failure) {
		for _, p := range waiting {
			if p.result.Verdict == Passed {
				p.result.Verdict, p.result.Reason, p.result.Failure = verdict, reason, failure
			}
		}
	}
	if err := s.config.Restart(ctx); err != nil {
		end(NotRun, err.Error(), nil) // which says nothing of the participant
		return
	}
	if err := s.peer.meet(ctx, answerSeconds*time.Second); err != nil {
		end(Failed, "", &Failure{Sent: "the restart", Expected: "the participant answers again", Came: err.Error()})
	}
}
