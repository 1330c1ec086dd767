-- +goose Up
-- Instants are microseconds since 1970, UTC. Keys compare byte for byte (binary
-- is SQLite's default collation).
create table sagas (
    tenant             text    not null,
    key                text    not null,
    source             text    not null,
    destination        text    not null,
    amount             integer not null check (amount > 0),
    currency           text    not null,
    fingerprint        blob    not null,
    memo               text    not null,
    metadata           text    not null,
    state              text    not null check (state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING',
                           'COMPLETED', 'REFUSED', 'REFUNDED', 'CANCELLED', 'RESOLVED')),
    reason             text    not null,
    refund_to_suspense integer not null check (refund_to_suspense in (0, 1)),
    debit_applied      integer not null check (debit_applied in (0, 1)),
    cancel_asked       integer not null check (cancel_asked in (0, 1)),
    parked             integer not null check (parked in (0, 1)),
    park_reason        text    not null,
    attention          integer not null check (attention in (0, 1)),
    attention_reason   text    not null,
    steps              text    not null,
    created_at         integer not null,
    expires_at         integer,
    progress_at        integer not null,
    updated_at         integer not null,
    due_at             integer not null,
    owner              text    not null,
    epoch              integer not null check (epoch > 0),
    version            integer not null check (version > 0),
    primary key (tenant, key)
) strict;

-- The sweep's way in: by owner, since all but the dead ones are passed over as a
-- whole, then by due time. Parked and final rows are not in it.
create index sagas_due on sagas (owner, due_at)
    where state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING') and parked = 0;

-- Cancels that another replica took; next to always empty.
create index sagas_cancel_asked on sagas (owner)
    where cancel_asked = 1 and state in ('DEBITING', 'CREDITING') and parked = 0;

create table leases (
    owner       text    not null primary key,
    lease_until integer not null
) strict, without rowid;
create index leases_ended on leases (lease_until);

create table events (
    tenant     text    not null,
    id         blob    not null,
    key        text    not null,
    type       text    not null,
    created_at integer not null,
    relayed_at integer,
    primary key (tenant, id)
) strict, without rowid;

create index events_unrelayed on events (created_at) where relayed_at is null;

-- +goose Down
drop table events;
drop table leases;
drop table sagas;
