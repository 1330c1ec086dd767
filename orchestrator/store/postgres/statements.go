package postgres

// The statements. What takes several rows unnests its arrays and looks each row
// up in a lateral subquery that the planner cannot pull up (it locks, or it has a
// limit): so the arrays are always the outer side, in the order in which they
// come, and each row is one descent of an index. A plain `update ... from unnest`
// is planned as a scan of the whole index while the table is small, and that plan
// is kept while it grows.
const (
	lookupSQL = `select ` + columns + ` from sagas where tenant = $1 and key = $2`

	lookupManySQL = `select l.* from unnest($1::text[], $2::text[]) as i (tenant, key)
		cross join lateral (
			select ` + columns + ` from sagas s where s.tenant = i.tenant and s.key = i.key limit 1
		) l`

	insertSQL = `insert into sagas (` + columns + `)
		select i.tenant, i.key, i.source, i.destination, i.amount, i.currency, i.fingerprint, i.memo, i.metadata,
			i.state, i.reason, i.refund_to_suspense, i.debit_applied, i.cancel_asked, i.parked, i.park_reason,
			i.attention, i.attention_reason, i.steps, now(),
			case when i.expiry > 0 then now() + i.expiry * interval '1 microsecond' end,
			now(), now(), now(), $1::text, 1, 1
		from unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::bytea[], $9::text[],
			$10::text[], $11::text[], $12::text[], $13::boolean[], $14::boolean[], $15::boolean[], $16::boolean[],
			$17::text[], $18::boolean[], $19::text[], $20::text[], $21::bigint[])
			as i (tenant, key, source, destination, amount, currency, fingerprint, memo, metadata, state, reason,
				refund_to_suspense, debit_applied, cancel_asked, parked, park_reason, attention, attention_reason, steps, expiry)
		on conflict (tenant, key) do nothing
		returning ` + columns

	// saveSQL locks the rows that are still at their version and epoch, and only
	// they then meet the conflict: nothing is ever inserted.
	saveSQL = `insert into sagas as t (` + columns + `)
		select l.tenant, l.key, l.source, l.destination, l.amount, l.currency, l.fingerprint, l.memo, l.metadata,
			i.state, i.reason, i.refund_to_suspense, i.debit_applied, l.cancel_asked, i.parked, i.park_reason,
			i.attention, i.attention_reason, i.steps, l.created_at, l.expires_at, i.progress_at, now(), i.due_at,
			l.owner, l.epoch, l.version + 1
		from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::text[], $6::text[], $7::boolean[], $8::boolean[],
			$9::boolean[], $10::text[], $11::boolean[], $12::text[], $13::text[], $14::timestamptz[], $15::timestamptz[], $16::timestamptz[])
			as i (tenant, key, version, epoch, state, reason, refund_to_suspense, debit_applied, parked, park_reason,
				attention, attention_reason, steps, progress_at, due_at, created_at)
		cross join lateral (
			select ` + columns + ` from sagas s
			where s.tenant = i.tenant and s.key = i.key and s.version = i.version and s.epoch = i.epoch
				and s.created_at = i.created_at and s.` + running + `
			for no key update
		) l
		on conflict (tenant, key) do update set
			state = excluded.state, reason = excluded.reason, refund_to_suspense = excluded.refund_to_suspense,
			debit_applied = excluded.debit_applied, parked = excluded.parked, park_reason = excluded.park_reason,
			attention = excluded.attention, attention_reason = excluded.attention_reason, steps = excluded.steps,
			progress_at = excluded.progress_at, due_at = excluded.due_at, updated_at = excluded.updated_at,
			version = excluded.version
		returning ` + columns

	eventSQL = `insert into events (tenant, id, key, type, created_at)
		select i.tenant, i.id, i.key, i.type, now()
		from unnest($1::text[], $2::uuid[], $3::text[], $4::text[]) as i (tenant, id, key, type)
		on conflict (tenant, id) do nothing`

	cancelSQL = `update sagas set cancel_asked = true, version = version + 1, updated_at = now()
		where tenant = $1 and key = $2 and not cancel_asked and ` + running + `
		returning ` + columns

	renewSQL = `with forgotten as (
			delete from leases where owner <> $1 and lease_until < now() - $3::bigint * interval '1 microsecond')
		insert into leases (owner, lease_until) values ($1, now() + $2::bigint * interval '1 microsecond')
		on conflict (owner) do update set lease_until = excluded.lease_until
		returning now()`

	askedSQL = `select ` + columns + ` from sagas where owner = $1 and cancel_asked and ` + forward + ` and ` + unparked + ` limit $2`

	releaseSQL = `delete from leases where owner = $1`

	// deadSQL steps from owner to owner through the index, however many rows each
	// has, and keeps those whose lease has ended or is missing. $1 is the claimer.
	deadSQL = `with recursive owners (owner) as (
			select (select s.owner from sagas s where s.` + running + ` and ` + unparked + ` order by s.owner limit 1)
			union all
			select (select s.owner from sagas s where s.` + running + ` and ` + unparked + ` and s.owner > o.owner
				order by s.owner limit 1)
			from owners o where o.owner is not null)
		select o.owner from owners o
		where o.owner is not null and o.owner <> $1
			and coalesce((select l.lease_until from leases l where l.owner = o.owner), '-infinity') <= now()`

	// claimSQL takes due rows of given owners, oldest first, and passes over what
	// others hold. The rows are locked by the subquery, so that the writes, in the
	// order of their due times, wait for nobody. It sets due_at too: a saga that was
	// taken is due from now, or the claimer would take its own longest-waiting ones
	// again with every sweep.
	claimSQL = `insert into sagas as t (` + columns + `)
		select d.tenant, d.key, d.source, d.destination, d.amount, d.currency, d.fingerprint, d.memo, d.metadata, d.state,
			d.reason, d.refund_to_suspense, d.debit_applied, d.cancel_asked, d.parked, d.park_reason, d.attention,
			d.attention_reason, d.steps, d.created_at, d.expires_at, d.progress_at, now(), now(), $1::text,
			d.epoch + 1, d.version + 1
		from (
			select l.* from unnest($2::text[], $3::bigint[]) as o (owner, age)
			cross join lateral (
				select ` + columns + ` from sagas s
				where s.owner = o.owner and s.due_at <= now() - o.age * interval '1 microsecond'
					and s.` + running + ` and ` + unparked + `
				order by s.due_at limit $4
				for no key update skip locked
			) l
			order by l.due_at limit $4
		) d
		on conflict (tenant, key) do update set
			owner = excluded.owner, due_at = excluded.due_at, updated_at = excluded.updated_at,
			epoch = excluded.epoch, version = excluded.version
		returning ` + columns

	listSQL = `select ` + columns + ` from sagas where (tenant, key) > ($1, $2) order by tenant, key limit $3`

	listTenantSQL = `select ` + columns + ` from sagas where tenant = $4 and (tenant, key) > ($1, $2)
		order by tenant, key limit $3`

	// unfinishedSQL has the condition of the index sagas_unfinished, word for word.
	unfinishedSQL = `select key from sagas where coalesce(` + running + `, false) and key > $1 order by key limit $2`

	identitySQL = `select identity from meta where id = 1`

	eventsSQL = `select tenant, id, key, type, created_at from events where (tenant, id) > ($1, $2)
		order by tenant, id limit $3`

	eventsTenantSQL = `select tenant, id, key, type, created_at from events where tenant = $4 and (tenant, id) > ($1, $2)
		order by tenant, id limit $3`
)

// statements are all of them, by name, for the tests that read them and their
// plans.
var statements = map[string]string{
	"lookup": lookupSQL, "lookupMany": lookupManySQL, "insert": insertSQL, "save": saveSQL, "event": eventSQL,
	"cancel": cancelSQL, "renew": renewSQL, "release": releaseSQL, "dead": deadSQL, "claim": claimSQL,
	"asked": askedSQL, "unfinished": unfinishedSQL, "identity": identitySQL,
	"list": listSQL, "listTenant": listTenantSQL, "events": eventsSQL, "eventsTenant": eventsTenantSQL,
}
