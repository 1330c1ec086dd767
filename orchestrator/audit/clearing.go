package audit

import (
	"cmp"
	"math/big"
	"slices"

	"giro/internal/money"
	"giro/internal/names"
	"giro/orchestrator/saga"
)

// side is the clearing account of one participant for another.
type side struct {
	participant, counterparty names.Participant
	tenant                    names.Tenant
	currency                  string
}

// opposite is the clearing account that the counterparty keeps.
func (s side) opposite() side {
	s.participant, s.counterparty = s.counterparty, s.participant
	return s
}

// clearing is what one clearing account holds.
type clearing struct {
	// balance is what Sums says; transit what the operations say: debits applied,
	// less credits applied and refunds moved.
	balance, transit *big.Int
	// example is the first transfer that moved money there.
	example saga.ID
}

func (b *Books) side(s side) *clearing {
	c, known := b.sides[s]
	if !known {
		c = &clearing{balance: new(big.Int), transit: new(big.Int)}
		b.sides[s] = c
	}
	return c
}

// expectClearing counts what an operation should have left in clearing.
func (b *Books) expectClearing(t *transfer, o operation, counterparty names.Participant) {
	if o.moved == 0 {
		return
	}
	c := b.side(side{participant: o.participant, counterparty: counterparty, tenant: t.id.Tenant, currency: o.currency})
	if c.example == (saga.ID{}) {
		c.example = t.id
	}
	c.transit.Add(c.transit, o.transit())
}

// transit is what an operation adds to the amount in transit.
func (o operation) transit() *big.Int {
	moved := big.NewInt(o.moved)
	if o.kind != debit {
		moved.Neg(moved)
	}
	return moved
}

// inTransit is what was debited and neither credited nor refunded of one
// transfer, by currency.
func (t *transfer) inTransit() map[string]*big.Int {
	sums := map[string]*big.Int{}
	for _, o := range t.operations {
		if o.moved != 0 {
			sums[o.currency] = new(big.Int).Add(orZero(sums[o.currency]), o.transit())
		}
	}
	return sums
}

// judgeClearing compares, for each pair of participants, what their clearing
// accounts hold with what their operations left there (2).
func (b *Books) judgeClearing() {
	check := &b.checks[2]
	if b.moved {
		check.note("books moved while they were read: clearing balances are not comparable and were left out")
	}
	seen := map[side]bool{}
	for _, s := range b.sortedSides() {
		if !b.registered[s.counterparty] {
			b.judgeStranger(s)
			continue
		}
		if s.participant > s.counterparty {
			s = s.opposite()
		}
		if !b.moved && !seen[s] {
			seen[s] = true
			check.Checked++
			b.judgePair(s)
		}
	}
}

func (b *Books) judgePair(s side) {
	one, other := b.side(s), &clearing{balance: new(big.Int), transit: new(big.Int)}
	if s.participant != s.counterparty {
		other = b.side(s.opposite())
	}
	if one.balance.Cmp(one.transit) == 0 && other.balance.Cmp(other.transit) == 0 {
		return
	}
	held, transit := new(big.Int).Add(one.balance, other.balance), new(big.Int).Add(one.transit, other.transit)
	if s.participant == s.counterparty {
		b.checks[2].find("tenant %s: clearing of %s for itself should hold the %s minor units of %s in transit, but holds %s",
			s.tenant, s.participant, transit, s.currency, held)
		return
	}
	b.checks[2].find("tenant %s: clearing between %s and %s should hold the %s minor units of %s in transit, but holds %s "+
		"(%s should hold %s and holds %s; %s should hold %s and holds %s)",
		s.tenant, s.participant, s.counterparty, transit, s.currency, held,
		s.participant, one.transit, one.balance, s.counterparty, other.transit, other.balance)
}

// judgeStranger names a clearing account kept for somebody whose books nobody
// can read.
func (b *Books) judgeStranger(s side) {
	check, c := &b.checks[2], b.sides[s]
	check.Checked++
	by := ""
	if c.example != (saga.ID{}) {
		by = ", first by transfer " + string(c.example.Key)
	}
	if c.balance.Sign() == 0 && c.transit.Sign() == 0 {
		check.inform("tenant %s: %s keeps an empty clearing account in %s for %q, which is not registered%s",
			s.tenant, s.participant, s.currency, s.counterparty, by)
		return
	}
	check.find("tenant %s: %s keeps a clearing account for %q, which is not registered: it holds %s minor units of %s (operations say %s)%s",
		s.tenant, s.participant, s.counterparty, c.balance, s.currency, c.transit, by)
}

// judgeTransit looks at one transfer's money on the way (2), and adds it up.
func (b *Books) judgeTransit(t *transfer, inTransit map[money.Currency]*big.Int, resolved map[string]*big.Int) {
	if b.gone(t) {
		return
	}
	check := &b.checks[2]
	check.Checked++
	sums := t.inTransit()
	for _, currency := range sortedKeys(sums) {
		sum := sums[currency]
		if sum.Sign() == 0 {
			continue
		}
		total := inTransit
		switch {
		case t.saga == nil: // check 5 names it
		case t.saga.state == saga.Resolved:
			resolved[currency] = new(big.Int).Add(orZero(resolved[currency]), sum)
			continue
		case !t.comparable(b.moved):
			if sum.Sign() < 0 {
				continue // its debit was stored after its participant was read
			}
		case t.saga.state.Final():
			check.find("%s is %s and should have nothing in transit, but has %s minor units of %s", t, t.saga.state, sum, currency)
		case currency != t.saga.currency || sum.Cmp(big.NewInt(t.saga.amount)) != 0:
			check.find("%s is %s and should have nothing or %s in transit, but has %s minor units of %s",
				t, t.saga.state, amount(t.saga.amount, t.saga.currency), sum, currency)
		}
		c := money.Currency(currency)
		total[c] = new(big.Int).Add(orZero(total[c]), sum)
	}
}

// comparable says that all that the saga's state speaks of has been read.
func (t *transfer) comparable(moved bool) bool {
	return !moved || (t.saga.state.Final() && !t.late)
}

func (b *Books) sortedSides() []side {
	sides := make([]side, 0, len(b.sides))
	for s := range b.sides {
		sides = append(sides, s)
	}
	slices.SortFunc(sides, func(x, y side) int {
		return cmp.Or(cmp.Compare(x.tenant, y.tenant), cmp.Compare(x.currency, y.currency),
			cmp.Compare(x.participant, y.participant), cmp.Compare(x.counterparty, y.counterparty))
	})
	return sides
}
