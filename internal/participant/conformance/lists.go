package conformance

import (
	"context"
	"fmt"
	"math/big"
	"slices"
	"sync"

	pb "giro/proto/giro/participant/v1"
)

var listRules = []rule{
	{Rule: Rule{"list-holds-everything", "ListOperations lists all that is stored, once, by key, whatever the size of the pages", reading}, run: listAll},
	{Rule: Rule{"list-lines-balance", "what moved money is listed with lines that sum to zero, and nothing else has lines", reading}, run: listLines},
	{Rule: Rule{"list-while-writing", "a walk misses nothing that was stored before it began, and lists nothing twice", reading}, run: listWhileWriting},
	{Rule: Rule{"list-pages", "a page size of 0 is the default, a huge one is clamped, a negative one refused", reading}, run: listPages},
	{Rule: Rule{"list-of-all-tenants", "without a tenant ListOperations lists those of all, by tenant and key, and Sums adds up all", reading}, run: listAllTenants},
	{Rule: Rule{"sums", "Sums are zero in each currency, and each clearing account holds what was moved", reading}, run: sums},
}

// pagesMax bounds a walk, which a token that leads nowhere would make endless.
const pagesMax = 100_000

// walk lists a tenant's operations, and calls between after each page.
func (c *check) walk(tenant string, pageSize int32, between func()) []*pb.StoredOperation {
	var all []*pb.StoredOperation
	request := &pb.ListOperationsRequest{Tenant: tenant, PageSize: pageSize}
	for range pagesMax {
		var page *pb.ListOperationsResponse
		_, err := again(c.ctx, func(ctx context.Context) (err error) {
			page, err = c.peer.client.ListOperations(ctx, request)
			return err
		})
		sent := "ListOperations " + words(request)
		if err != nil {
			c.broken(sent, "a page", err.Error())
		}
		if n := len(page.GetOperations()); pageSize > 0 && n > int(pageSize) {
			c.broken(sent, fmt.Sprintf("at most %d operations", pageSize), fmt.Sprint(n))
		}
		for _, o := range page.GetOperations() {
			if len(all) > 0 && !before(all[len(all)-1].GetOperation(), o.GetOperation()) {
				c.broken(sent, "each after the one before it, by tenant and key", words(all[len(all)-1].GetOperation())+", then "+words(o.GetOperation()))
			}
			if tenant != "" && o.GetOperation().GetTenant() != tenant {
				c.broken(sent, "operations of this tenant", words(o.GetOperation()))
			}
			all = append(all, o)
		}
		if request.PageToken = page.GetNextPageToken(); request.PageToken == "" {
			return all
		}
		if between != nil {
			between()
		}
	}
	c.broken("ListOperations of tenant "+tenant, "an end", fmt.Sprintf("%d pages", pagesMax))
	return nil
}

// before is the order of lists.
func before(a, b *pb.Operation) bool {
	return a.GetTenant() < b.GetTenant() || (a.GetTenant() == b.GetTenant() && a.GetKey() < b.GetKey())
}

// listed is what an operation must be listed as: with its contents, except for a
// tombstone, which has none.
func listed(o *pb.Operation, a *pb.Answer) *pb.Operation {
	o = with(o, func(*pb.Operation) {})
	if o.GetKind() == kindCancel {
		o.Kind = map[string]pb.OperationKind{"debit": kindDebit, "credit": kindCredit}[o.GetStep()]
	}
	if a.GetOutcome() == cancelled {
		o.Account, o.Amount, o.Currency, o.Counterparty = "", 0, "", ""
	}
	return o
}

func listAll(c *check) {
	_, all, _ := c.oneOfEach()
	a := c.account("alice")
	all = append(all, c.debits(a, 10)...)
	firsts := map[string]*pb.Answer{}
	asked := map[string]*pb.Operation{}
	for _, o := range all {
		asked[o.GetKey()], firsts[o.GetKey()] = o, c.ask(o)
	}
	whole := c.walk(c.tenant, 1000, nil)
	found := map[string]*pb.StoredOperation{}
	for _, s := range whole {
		found[s.GetOperation().GetKey()] = s
	}
	for key, o := range asked {
		s := found[key]
		if s == nil {
			c.broken("ListOperations after "+words(o), "to find it", "not in the list")
		}
		if w := listed(o, firsts[key]); words(w) != words(s.GetOperation()) {
			c.broken("ListOperations", words(w), words(s.GetOperation()))
		}
		if !sameAnswer(s.GetAnswer(), firsts[key]) {
			c.broken("ListOperations after "+words(o), words(firsts[key]), words(s.GetAnswer()))
		}
	}
	for _, size := range []int32{1, 2, 3, 7, int32(len(whole))} { //nolint:gosec // a few
		paged := c.walk(c.tenant, size, nil)
		same := slices.EqualFunc(whole, paged, func(x, y *pb.StoredOperation) bool { return x.GetOperation().GetKey() == y.GetOperation().GetKey() })
		if !same {
			c.broken(fmt.Sprintf("ListOperations in pages of %d", size), fmt.Sprintf("the same %d keys as in one page", len(whole)), fmt.Sprintf("%d keys", len(paged)))
		}
	}
}

// add adds up amounts by a name.
func add(sums map[string]*big.Int, name string, amount int64) {
	if sums[name] == nil {
		sums[name] = new(big.Int)
	}
	sums[name].Add(sums[name], big.NewInt(amount))
}

// balanced judges the lines of one listed operation. Of the participant's own
// operations only the sum is known.
func (c *check) balanced(s *pb.StoredOperation) {
	entry := map[string]*big.Int{}
	for _, l := range s.GetLines() {
		add(entry, l.GetCurrency(), l.GetAmount())
	}
	for code, sum := range entry {
		if sum.Sign() != 0 {
			c.broken("ListOperations", "lines that sum to zero in "+code, words(s))
		}
	}
	if moved := s.GetAnswer().GetAmountMoved() != 0; moved != (len(s.GetLines()) > 0) || (moved && s.GetAnswer().GetOutcome() != applied) {
		c.broken("ListOperations", "lines if, and only if, it is APPLIED and moved money", words(s))
	}
}

func listLines(c *check) {
	_, all, _ := c.oneOfEach()
	for _, o := range all {
		c.ask(o)
	}
	changes := map[pb.OperationKind]int64{kindDebit: -1, kindCredit: 1, kindRefund: 1}
	for _, s := range c.walk(c.tenant, 1000, nil) {
		c.balanced(s)
		o, moved := s.GetOperation(), s.GetAnswer().GetAmountMoved()
		if o.GetKind() == kindLocal || moved == 0 {
			continue
		}
		lines := map[string]int64{}
		for _, l := range s.GetLines() {
			lines[l.GetAccount()] += l.GetAmount()
		}
		delta := changes[o.GetKind()] * moved
		if lines[o.GetAccount()] != delta || lines["clearing:"+elsewhere] != -delta {
			c.broken("ListOperations", fmt.Sprintf("%d on %s and %d on clearing:%s", delta, o.GetAccount(), -delta, elsewhere), words(s))
		}
	}
}

// listWhileWriting stores operations all over the order of keys while a walk is
// under way.
func listWhileWriting(c *check) {
	a := c.funded("alice", 1)
	credits := func(n int) []*pb.Operation {
		var all []*pb.Operation
		for range n {
			all = append(all, under(c.credit(a, 1), c.scatteredTransferKey()))
		}
		return all
	}
	before := credits(60)
	c.atOnce(before...)
	ctx, stop := context.WithCancel(c.ctx)
	var writer sync.WaitGroup
	defer writer.Wait()
	defer stop()
	writer.Go(func() {
		for ctx.Err() == nil {
			_, _ = c.try(credits(1)[0]) // judged by the walk alone
		}
	})
	pages := 0
	walked := c.walk(c.tenant, 5, func() {
		if pages++; pages <= 20 {
			c.atOnce(credits(4)...)
		} else {
			stop() // so that the walk has an end
		}
	})
	found := map[string]bool{}
	for _, s := range walked {
		found[s.GetOperation().GetKey()] = true
	}
	for _, o := range before {
		if !found[o.GetKey()] {
			c.broken("ListOperations in pages of 5 while others write", "all 60 operations stored before it began", "without "+words(o))
		}
	}
}

func listPages(c *check) {
	a := c.funded("alice", 100)
	c.atOnce(c.debits(a, 3)...)
	n := len(c.walk(c.tenant, 0, nil))
	if huge := len(c.walk(c.tenant, 1<<30, nil)); huge != n {
		c.broken("ListOperations in pages of 0 and of 2^30", fmt.Sprintf("%d operations", n), fmt.Sprint(huge))
	}
	err := once(c.ctx, func(ctx context.Context) error {
		_, err := c.peer.client.ListOperations(ctx, &pb.ListOperationsRequest{Tenant: c.tenant, PageSize: -1})
		return err
	})
	if err == nil {
		c.broken("ListOperations with a page size of -1", "an error", "OK")
	}
}

// wholeMax is how many operations of all tenants are listed at most: the
// participant may have been in use for long.
const wholeMax = 200_000

func listAllTenants(c *check) {
	other := c.another()
	asked := []*pb.Operation{c.debit(c.nobody(), 1), other.debit(other.nobody(), 1), cancelOf(c.credit(c.nobody(), 1))}
	for _, o := range asked {
		c.ask(o)
	}
	r, err := c.peer.client.Sums(c.ctx, &pb.SumsRequest{})
	if err != nil {
		c.broken("Sums of all tenants", "OK", err.Error())
	}
	if r.GetOperationCount() > wholeMax {
		c.notRun("it lists everything, and the participant holds %d operations; the limit is %d", r.GetOperationCount(), wholeMax)
	}
	found := map[string]bool{}
	whole := c.walk("", 1000, nil)
	for _, s := range whole {
		found[s.GetOperation().GetTenant()+" "+s.GetOperation().GetKey()] = true
	}
	for _, o := range asked {
		if !found[o.GetTenant()+" "+o.GetKey()] {
			c.broken("ListOperations of all tenants after "+words(o), "to find it", fmt.Sprintf("%d others", len(whole)))
		}
	}
	if r.GetOperationCount() < int64(len(asked)) {
		c.broken("Sums of all tenants", fmt.Sprintf("operation_count of at least %d", len(asked)), words(r))
	}
	for _, s := range r.GetCurrencies() {
		if s.GetTotal() != "0" {
			c.broken("Sums of all tenants", "0 for each tenant and currency", words(s))
		}
	}
}

// sumsOf gives a tenant's sums, which must be zero in each currency.
func (c *check) sumsOf(tenant string) *pb.SumsResponse {
	var r *pb.SumsResponse
	_, err := again(c.ctx, func(ctx context.Context) (err error) {
		r, err = c.peer.client.Sums(ctx, &pb.SumsRequest{Tenant: tenant})
		return err
	})
	sent := "Sums of tenant " + tenant
	if err != nil {
		c.broken(sent, "OK", err.Error())
	}
	for _, s := range r.GetCurrencies() {
		if s.GetTotal() != "0" || s.GetTenant() != tenant {
			c.broken(sent, "0 in each currency, of this tenant", words(s))
		}
	}
	if len(r.GetFaults()) > 0 {
		c.broken(sent, "no faults", words(r))
	}
	return r
}

// clearing compares the clearing accounts of a tenant; those that hold 0 may be
// left out.
func (c *check) clearing(tenant string, r *pb.SumsResponse, want map[string]*big.Int) {
	got := map[string]*big.Int{}
	for _, s := range r.GetClearing() {
		balance, ok := new(big.Int).SetString(s.GetBalance(), 10)
		if !ok {
			c.broken("Sums of tenant "+tenant, "decimal text", words(s))
		}
		got[s.GetParticipant()+" "+s.GetCurrency()] = balance
	}
	zero := new(big.Int)
	orZero := func(n *big.Int) *big.Int {
		if n == nil {
			return zero
		}
		return n
	}
	for _, names := range []map[string]*big.Int{got, want} {
		for name := range names {
			if orZero(got[name]).Cmp(orZero(want[name])) != 0 {
				c.broken("Sums of tenant "+tenant, fmt.Sprintf("clearing account of %s: %s", name, orZero(want[name])), words(r))
			}
		}
	}
}

func sums(c *check) {
	a := c.funded("alice", 1000)
	d, given := c.debit(a, 40), c.debit(a, 30)
	other := with(c.debit(a, 5), func(o *pb.Operation) { o.Counterparty = elsewhere + "-2/shop" })
	lost := c.debit(a, 5000)
	all := []*pb.Operation{d, given, refundOf(given), other, lost, refundOf(lost), c.credit(a, 100), cancelOf(c.debit(a, 9))}
	for _, o := range all {
		c.ask(o)
		c.ask(o)
	}
	r := c.sumsOf(c.tenant)
	code := " " + a.currency
	c.clearing(c.tenant, r, map[string]*big.Int{elsewhere + code: big.NewInt(40 - 1000 - 100), elsewhere + "-2" + code: big.NewInt(5)})
	stored := len(c.walk(c.tenant, 1000, nil))
	if r.GetOperationCount() != int64(stored) {
		c.broken("Sums of tenant "+c.tenant, fmt.Sprintf("operation_count %d, as many as are listed", stored), words(r))
	}
	if len(r.GetCurrencies()) != 1 || r.GetCurrencies()[0].GetCurrency() != a.currency {
		c.broken("Sums of tenant "+c.tenant, "one currency, "+a.currency, words(r))
	}
}

var lastRules = []rule{
	{Rule: Rule{"conservation", "at the end the books of every tenant of this run balance: sums, lines and clearing accounts", atomicity}, run: conservation},
}

func conservation(c *check) {
	for _, tenant := range c.suite.tenants {
		r := c.sumsOf(tenant)
		clearing := map[string]*big.Int{}
		for _, s := range c.walk(tenant, 1000, nil) {
			c.balanced(s)
			for _, l := range s.GetLines() {
				if p, is := clearingOf(l.GetAccount()); is {
					add(clearing, p+" "+l.GetCurrency(), l.GetAmount())
				}
			}
		}
		c.clearing(tenant, r, clearing)
	}
}

func clearingOf(account string) (participant string, is bool) {
	const prefix = "clearing:"
	if len(account) <= len(prefix) || account[:len(prefix)] != prefix {
		return "", false
	}
	return account[len(prefix):], true
}
