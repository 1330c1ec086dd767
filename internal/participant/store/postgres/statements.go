package postgres

// What rows are read as: the columns in the order of scanOperation and of scanAccount.
var (
	operationColumns = detailedTable.names()
	accountColumns   = accountTable.names()
)

// markSlots is how many counters the migration makes.
const markSlots = 64

// What a batch writes. An account or a key that somebody else is inserting is waited
// for. One that is there means that a race was lost.
var (
	openAccounts  = inserting("accounts", accountTable)
	addOperations = inserting("operations", operationTable)
	// addDetailed is addOperations for a batch that holds local operations.
	addDetailed    = inserting("operations", detailedTable)
	addEvents      = inserting("events", eventTable)
	changeAccounts = updating("accounts", changedTable, accountKey)
	amendAccounts  = updating("accounts", amendedTable, accountKey)
)

// A loading finds rows by tenant and a key: one statement for any number of them, as
// two arrays, or a simpler one for one row.
type loading struct{ one, many string }

// What a batch reads. Each number of kind and outcome is the book's: 3 is Refund, 13
// Release, 16 Reverse, 1 is Applied.
var (
	loadOperations = loading{
		one: lookupOperation,
		many: `select ` + detailedTable.of("o") + ` from unnest($1::text[], $2::uuid[]) as asked (tenant, key)
			join operations o on o.tenant = asked.tenant and o.key = asked.key`,
	}
	loadRefunds = loading{
		one: `select ` + operationColumns + ` from operations
			where tenant = $1::text and debit_key = $2::uuid and kind in (3, 13, 16) and outcome = 1`,
		many: `select ` + detailedTable.of("o") + ` from unnest($1::text[], $2::uuid[]) as asked (tenant, debit_key)
			join operations o on o.tenant = asked.tenant and o.debit_key = asked.debit_key and o.kind in (3, 13, 16) and o.outcome = 1`,
	}
	// The rows are locked after they are sorted: in the one global order. NO KEY,
	// since no key of an account ever changes.
	lockAccounts = loading{
		one: lockAccount,
		many: `select ` + accountTable.of("a") + ` from unnest($1::text[], $2::text[]) as asked (tenant, account)
			join accounts a on a.tenant = asked.tenant and a.account = asked.account
			order by a.tenant, a.account for no key update of a`,
	}
)

// The hot statements. Each has one plan, whatever the size of its batch; the tests read
// the plans.
var (
	// loadNow reads the clock, and with it what is held about forgetting.
	loadNow = `select clock_timestamp(), retention_seconds, archived_before, unfinished_since from meta where id = 1`

	raiseMark = `update marks set batches = batches + 1 where slot = $1::smallint`

	lookupOperation = `select ` + operationColumns + ` from operations where tenant = $1::text and key = $2::uuid`

	listOperations = `select ` + operationColumns + ` from operations
		where (tenant, key) > ($1::text, $2::uuid) order by tenant, key limit $3::bigint`

	listOperationsOf = `select ` + operationColumns + ` from operations
		where tenant = $1::text and key > $2::uuid order by key limit $3::bigint`

	loadAccount = `select ` + accountColumns + ` from accounts where tenant = $1::text and account = $2::text`

	listAccounts = `select ` + accountColumns + ` from accounts
		where tenant = $1::text and account > $2::text order by account limit $3::bigint`

	// lockAccount waits for whoever is changing the account.
	lockAccount = `select ` + accountColumns + ` from accounts
		where tenant = $1::text and account = $2::text for no key update`

	lastBefore = `select first_time, seq, balance_after from operations
		where tenant = $1::text and booked = $2::text and seq > 0 and first_time < $3::timestamptz
		order by first_time desc, seq desc limit 1`

	linesAfter = `select ` + operationColumns + ` from operations
		where tenant = $1::text and booked = $2::text and seq > 0 and (first_time, seq) > ($3::timestamptz, $4::bigint)
		order by first_time, seq limit $5::bigint`

	listSuspended = `select ` + operationColumns + `, coalesce((select r.booked from operations r
				where r.tenant = o.tenant and r.debit_key = o.key and r.kind in (3, 13, 16) and r.outcome = 1), '')
		from operations o where tenant = $1::text and key > $2::uuid and to_suspense and kind = 3 and outcome = 1
		order by key limit $3::bigint`

	identity = `select incarnation, (select sum(batches)::bigint from marks) from meta where id = 1`

	keepFor = `update meta set retention_seconds = $1::bigint where id = 1`

	// lockMeta lets one report, and one batch that is archived, go after the other. No
	// operation waits for it: they only read that row.
	lockMeta = loadNow + ` for no key update`

	report = `insert into orchestrators (orchestrator, reported_at, oldest)
		values ($1::text, clock_timestamp(), $2::timestamptz)
		on conflict (orchestrator) do update set reported_at = excluded.reported_at, oldest = excluded.oldest`

	forgetReport = `delete from orchestrators where orchestrator = $1::text`

	listReports = `select orchestrator, reported_at, oldest from orchestrators order by orchestrator`

	setUnfinished = `update meta set unfinished_since = $1::timestamptz where id = 1`

	commitHorizon = `update meta set archived_before = $1::timestamptz where id = 1`

	deleteOperations = `delete from operations o using unnest($1::text[], $2::uuid[]) as gone (tenant, key)
		where o.tenant = gone.tenant and o.key = gone.key`

	deleteEvents = `delete from events e using unnest($1::timestamptz[], $2::text[], $3::uuid[]) as gone (created_at, tenant, id)
		where e.created_at = gone.created_at and e.tenant = gone.tenant and e.id = gone.id`

	bringForward = addDetailed.many + `
		on conflict (tenant, key) do update set amount = excluded.amount, amount_moved = excluded.amount_moved,
			balance_after = excluded.balance_after, first_time = excluded.first_time, delta = excluded.delta, seq = excluded.seq`

	// Of two at once, the second waits and is told the first.
	claim = `update meta set participant = coalesce(participant, $1::text) where id = 1 returning participant`
)

// hotStatements run on the pool whose sessions keep to indexes.
var hotStatements = []string{loadNow,
	loadOperations.one, loadOperations.many, loadRefunds.one, loadRefunds.many, lockAccounts.one, lockAccounts.many,
	openAccounts.one, openAccounts.many, addOperations.one, addOperations.many, addDetailed.one, addDetailed.many,
	addEvents.one, addEvents.many, changeAccounts.one, changeAccounts.many, amendAccounts.one, amendAccounts.many,
	raiseMark, lookupOperation, listOperations, listOperationsOf, loadAccount, listAccounts,
	lastBefore, linesAfter, listSuspended, identity, claim,
	keepFor, lockMeta, report, forgetReport, listReports, setUnfinished, commitHorizon, deleteOperations, deleteEvents, bringForward}

// The reports read whole tables, with whatever plan is best. $1 is the tenant, or
// empty for all of them. Sums of bigint are numeric: they cannot wrap.
const (
	// lines are both sides of every entry. Those of the participant's own accounts
	// have no number.
	lines = `(select tenant, booked as account, currency, delta as amount, seq, first_time from operations
			where delta <> 0 and ($1 = '' or tenant = $1)
		union all
		select tenant, against, currency, -delta, 0, first_time from operations where delta <> 0 and ($1 = '' or tenant = $1))`

	sumCurrencies = `select tenant, currency, sum(amount)::text, sum(account_count)::bigint from (
			select tenant, currency, balance as amount, 1 as account_count from accounts where $1 = '' or tenant = $1
			union all
			select l.tenant, l.currency, l.amount, 0 from ` + lines + ` l where l.seq = 0
		) as amounts group by tenant, currency order by tenant, currency`

	// ownBalances are those of the participant's own accounts, which have no row.
	ownBalances = `select l.tenant, l.account, 0::smallint, l.currency, sum(l.amount)::text from ` + lines + ` l
		where l.seq = 0 group by l.tenant, l.account, l.currency order by l.tenant, l.currency, l.account`

	accountBalances = `select tenant, account, class, currency, balance::text from accounts where tenant = $1`

	// ownBalancesAsOf and accountBalancesAsOf are as of $2.
	ownBalancesAsOf = `select l.tenant, l.account, 0::smallint, l.currency, sum(l.amount)::text from ` + lines + ` l
		where l.seq = 0 and l.first_time <= $2
		group by l.tenant, l.account, l.currency order by l.tenant, l.currency, l.account`

	accountBalancesAsOf = `select a.tenant, a.account, a.class, a.currency, coalesce(l.balance_after, 0)::text
		from accounts a left join lateral (
			select balance_after from operations o
			where o.tenant = a.tenant and o.booked = a.account and o.seq > 0 and o.first_time <= $2
			order by o.first_time desc, o.seq desc limit 1
		) l on true
		where a.tenant = $1 and a.created_at <= $2`

	findFaults = `select a.tenant, a.account, a.currency, a.balance, a.floor, a.state, a.created_at, a.updated_at,
			coalesce(s.amount, 0)::text
		from accounts a left join (
			select l.tenant, l.account, l.currency, sum(l.amount) as amount from ` + lines + ` l
			where l.seq > 0 group by l.tenant, l.account, l.currency
		) s on s.tenant = a.tenant and s.account = a.account and s.currency = a.currency
		where ($1 = '' or a.tenant = $1) and (a.balance < a.floor or a.balance <> coalesce(s.amount, 0))
		order by a.tenant, a.account limit $2`

	// archivedUntil is the time of the tenant's last archived line; 17 is BroughtForward.
	archivedUntil = `select max(first_time) from operations where tenant = $1 and kind = 17`

	countOperations = `select count(*) from operations where $1 = '' or tenant = $1`

	snapshotTime = `select now()`
)
