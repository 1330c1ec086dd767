package conformance

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	conformancev1 "giro/proto/giro/conformance/v1"
	pb "giro/proto/giro/participant/v1"
)

// check is one rule under way: its tenant, and the calls that it makes. Its
// methods end the rule at the first thing that is wrong.
type check struct {
	suite  *suite
	ctx    context.Context
	peer   *peer
	tenant string
	end    func() // ends what a rule left running over the restart; nil where nothing was
}

// notRun ends a rule that cannot be run.
type notRun string

func (c *check) notRun(format string, args ...any) { panic(notRun(fmt.Sprintf(format, args...))) }

// broken ends a rule that is broken.
func (c *check) broken(sent, expected, came string) {
	panic(Failure{Sent: sent, Expected: expected, Came: came})
}

// newTenant gives one that nobody has used before.
func (c *check) newTenant() string {
	s := c.suite
	tenant := fmt.Sprintf("conformance-%s-%d", s.run, len(s.tenants)+1)
	s.tenants = append(s.tenants, tenant)
	return tenant
}

// ask makes the operation's own call and must get an answer.
func (c *check) ask(o *pb.Operation) *pb.Answer {
	answer, err := c.try(o)
	if err != nil {
		c.broken(words(o), "an answer in an OK response", err.Error())
	}
	return answer
}

func (c *check) try(o *pb.Operation) (answer *pb.Answer, err error) {
	unknown := unknowns{}
	_, err = again(c.ctx, func(ctx context.Context) error {
		answer, err = c.peer.single(ctx, o)
		return cmp.Or(err, unknown.askAgain(answer))
	})
	return answer, err
}

// unknowns counts answers without an outcome: nothing is known of such an
// operation, and it is asked again, but not for ever.
type unknowns struct{ count int }

func (u *unknowns) askAgain(answers ...*pb.Answer) error {
	const most = 5
	for _, a := range answers {
		if a != nil && a.GetOutcome() == 0 && u.count < most {
			u.count++
			return status.Error(codes.Unavailable, "an answer without an outcome")
		}
	}
	return nil
}

// atOnce asks all at the same time, each by its own call.
func (c *check) atOnce(operations ...*pb.Operation) []*pb.Answer {
	answers, errs := make([]*pb.Answer, len(operations)), make([]error, len(operations))
	c.together(len(operations), func(i int) { answers[i], errs[i] = c.try(operations[i]) })
	for i, err := range errs {
		if err != nil {
			c.broken(fmt.Sprintf("%s, among %d at once", words(operations[i]), len(operations)), "an answer in an OK response", err.Error())
		}
	}
	return answers
}

// together does n things at the same time.
func (c *check) together(n int, do func(i int)) {
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { do(i) })
	}
	all.Wait()
}

// batch sends one Apply and must get an answer for each item.
func (c *check) batch(operations ...*pb.Operation) []*pb.Answer {
	if n := int(c.peer.describe.GetBatchSizeMax()); len(operations) > n {
		c.notRun("it needs a batch of %d, and Describe allows %d", len(operations), n)
	}
	answers, err := c.tryBatch(operations...)
	if err != nil {
		c.broken(batchWords(operations), "an answer for each item in an OK response", err.Error())
	}
	return answers
}

func (c *check) tryBatch(operations ...*pb.Operation) (answers []*pb.Answer, err error) {
	unknown := unknowns{}
	_, err = again(c.ctx, func(ctx context.Context) error {
		r, err := c.peer.client.Apply(ctx, &pb.ApplyRequest{Operations: operations})
		if err == nil && len(r.GetAnswers()) != len(operations) {
			return fmt.Errorf("%d answers to %d operations", len(r.GetAnswers()), len(operations))
		}
		answers = r.GetAnswers()
		return cmp.Or(err, unknown.askAgain(answers...))
	})
	return answers, err
}

func batchWords(operations []*pb.Operation) string {
	parts := []string{fmt.Sprintf("Apply of %d:", len(operations))}
	for i, o := range operations {
		if i == 6 {
			parts = append(parts, "...")
			break
		}
		parts = append(parts, words(o))
	}
	return strings.Join(parts, " ")
}

// get looks a key up.
func (c *check) get(o *pb.Operation) *pb.Answer {
	var answer *pb.Answer
	_, err := again(c.ctx, func(ctx context.Context) error {
		r, err := c.peer.client.GetOperation(ctx, &pb.GetOperationRequest{Operation: o})
		if err == nil && r.GetAnswer() == nil {
			return errNoAnswer
		}
		answer = r.GetAnswer()
		return err
	})
	if err != nil {
		c.broken("GetOperation "+words(o), "an answer in an OK response", err.Error())
	}
	return answer
}

// want is what an answer must be. An outcome that moved money has moved, and the
// others 0.
type want struct {
	outcome pb.Outcome
	reason  pb.RefusalReason
	moved   int64
	// fields are those that differ (KEY_REUSED) or are malformed (INVALID).
	fields []string
}

func (w want) String() string {
	text := short(w.outcome.String())
	if w.reason != 0 {
		text += ", " + short(w.reason.String())
	}
	if w.moved != 0 || w.outcome == applied {
		text += fmt.Sprintf(", amount_moved %d", w.moved)
	}
	if w.fields != nil {
		text += ", naming " + strings.Join(w.fields, ", ")
	}
	return text
}

// expect asks, compares and gives the answer.
func (c *check) expect(o *pb.Operation, w want) *pb.Answer {
	answer := c.ask(o)
	c.compare(words(o), answer, w)
	return answer
}

// compare compares an answer to what was sent.
func (c *check) compare(sent string, a *pb.Answer, w want) {
	got := want{a.GetOutcome(), a.GetReason(), a.GetAmountMoved(), nil}
	switch a.GetOutcome() {
	case keyReused:
		got.fields = a.GetDifferingFields()
	case invalid:
		for _, v := range a.GetViolations() {
			got.fields = append(got.fields, v.GetField())
		}
	}
	same := got.outcome == w.outcome && got.reason == w.reason && got.moved == w.moved && sameFields(got.fields, w.fields)
	if !same {
		c.broken(sent, w.String(), words(a))
	}
}

// sameFields compares names in any order. Where the step differs the kind may or
// may not be named too: each says which operation it is.
func sameFields(got, want []string) bool {
	clean := func(fields []string) []string {
		list := slices.Sorted(slices.Values(fields))
		list = slices.Compact(list)
		if slices.Contains(list, "step") {
			list = slices.DeleteFunc(list, func(f string) bool { return f == "kind" })
		}
		return list
	}
	return slices.Equal(clean(got), clean(want))
}

// sameAnswer says whether an outcome is the same; by rules of their own, the
// time of the first and the mark of a replay are not looked at here.
func sameAnswer(a, b *pb.Answer) bool {
	return a.GetOutcome() == b.GetOutcome() && a.GetReason() == b.GetReason() && a.GetAmountMoved() == b.GetAmountMoved() &&
		a.GetBalanceAfter() == b.GetBalanceAfter() && a.GetDebitOutcome() == b.GetDebitOutcome() &&
		a.GetFirstRefundKey() == b.GetFirstRefundKey() && a.GetFirstRefundAmount() == b.GetFirstRefundAmount() &&
		a.GetRefundToSuspense() == b.GetRefundToSuspense()
}

// repeats asks again and must get the same outcome.
func (c *check) repeats(o *pb.Operation, first *pb.Answer) {
	second := c.ask(o)
	if !sameAnswer(first, second) {
		c.broken("again: "+words(o), "the outcome of the first: "+words(first), words(second))
	}
}

// amountNeeded is the largest amount of most rules.
const amountNeeded = 10_000

// account is one of the check's tenant.
type account struct {
	tenant, name, currency string
}

// open opens an account without money.
func (c *check) open(name, currency string) account {
	if limit := c.peer.describe.GetAmountMax(); limit < amountNeeded {
		c.notRun("it needs amounts of up to %d, and Describe allows %d", amountNeeded, limit)
	}
	a := account{c.tenant, name, currency}
	c.setup("OpenAccount "+name, func(ctx context.Context, key string) error {
		_, err := c.peer.setup.OpenAccount(ctx, &conformancev1.OpenAccountRequest{Tenant: c.tenant, Key: key, Account: name, Currency: currency})
		return err
	})
	return a
}

// funded opens an account that holds the amount.
func (c *check) funded(name string, amount int64) account {
	a := c.open(name, c.currency())
	c.expect(c.credit(a, amount), want{outcome: applied, moved: amount})
	return a
}

func (c *check) freeze(a account) {
	c.setup("FreezeAccount "+a.name, func(ctx context.Context, key string) error {
		_, err := c.peer.setup.FreezeAccount(ctx, &conformancev1.FreezeAccountRequest{Tenant: a.tenant, Key: key, Account: a.name})
		return err
	})
}

func (c *check) unfreeze(a account) {
	c.setup("UnfreezeAccount "+a.name, func(ctx context.Context, key string) error {
		_, err := c.peer.setup.UnfreezeAccount(ctx, &conformancev1.UnfreezeAccountRequest{Tenant: a.tenant, Key: key, Account: a.name})
		return err
	})
}

func (c *check) close(a account) {
	c.setup("CloseAccount "+a.name, func(ctx context.Context, key string) error {
		_, err := c.peer.setup.CloseAccount(ctx, &conformancev1.CloseAccountRequest{Tenant: a.tenant, Key: key, Account: a.name})
		return err
	})
}

func (c *check) setup(name string, call func(ctx context.Context, key string) error) {
	key := c.newTransferKey()
	_, err := again(c.ctx, func(ctx context.Context) error { return call(ctx, key) })
	if status.Code(err) == codes.Unimplemented {
		c.notRun("it needs accounts, and %s is not served (giro.conformance.v1)", strings.Fields(name)[0])
	}
	if err != nil {
		c.broken("setup: "+name+" of tenant "+c.tenant, "OK", err.Error())
	}
}

// holds checks the balance of an open account, by what is left after one unit has
// come and gone.
func (c *check) holds(a account, amount int64, after string) {
	in, out := c.credit(a, 1), c.debit(a, 1)
	c.expect(in, want{outcome: applied, moved: 1})
	if got := c.expect(out, want{outcome: applied, moved: 1}); got.GetBalanceAfter() != amount {
		c.broken(after+"; then a credit and a debit of 1 to read the balance", fmt.Sprintf("a balance of %d", amount),
			fmt.Sprintf("balance_after %d", got.GetBalanceAfter()))
	}
}
