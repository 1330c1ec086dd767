-- +goose Up
-- Keys compare byte for byte, whatever the database's collation. Rows are taken
-- in the order of (tenant, key) everywhere.
create table sagas (
    tenant             text collate "C" not null,
    key                text collate "C" not null,
    source             text             not null,
    destination        text             not null,
    amount             bigint           not null check (amount > 0),
    currency           text             not null,
    fingerprint        bytea            not null,
    memo               text             not null,
    metadata           text             not null,
    state              text collate "C" not null check (state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING',
                           'COMPLETED', 'REFUSED', 'REFUNDED', 'CANCELLED', 'RESOLVED')),
    reason             text             not null,
    refund_to_suspense boolean          not null,
    debit_applied      boolean          not null,
    cancel_asked       boolean          not null,
    parked             boolean          not null,
    park_reason        text             not null,
    attention          boolean          not null,
    attention_reason   text             not null,
    steps              text             not null,
    created_at         timestamptz      not null,
    expires_at         timestamptz,
    progress_at        timestamptz      not null,
    updated_at         timestamptz      not null,
    due_at             timestamptz      not null,
    owner              text collate "C" not null,
    epoch              bigint           not null check (epoch > 0),
    version            bigint           not null check (version > 0),
    primary key (tenant, key)
);

-- The sweep's way in: by owner, since all but the dead ones are passed over as a
-- whole, then by due time. Parked and final rows are not in it.
create index sagas_due on sagas (owner, due_at)
    where state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING') and not parked;

-- Cancels that another replica took; next to always empty.
create index sagas_cancel_asked on sagas (owner)
    where cancel_asked and state in ('DEBITING', 'CREDITING') and not parked;

create table leases (
    owner       text collate "C" not null primary key,
    lease_until timestamptz      not null
);
create index leases_ended on leases (lease_until);

create table events (
    tenant     text collate "C" not null,
    id         uuid             not null,
    key        text collate "C" not null,
    type       text             not null,
    created_at timestamptz      not null,
    relayed_at timestamptz,
    primary key (tenant, id)
);

create index events_unrelayed on events (created_at) where relayed_at is null;

-- +goose Down
drop table events;
drop table leases;
drop table sagas;
