-- +goose Up
-- A participant's books. Numbers of kinds, outcomes, reasons and states are the
-- book's; instants are microseconds since 1970, UTC. Text compares byte for byte.

create table operations (
    tenant             text    not null,
    key                blob    not null check (length(key) = 16),
    transfer_key       text    not null,
    step               text    not null,
    kind               integer not null,
    account            text    not null,
    amount             integer not null,
    currency           text    not null,
    counterparty       text    not null,
    debit_key          blob,
    outcome            integer not null,
    reason             integer not null,
    amount_moved       integer not null,
    balance_after      integer not null,
    debit_outcome      integer not null,
    first_refund_key   blob,
    first_refund_moved integer not null,
    to_suspense        integer not null,
    first_time         integer not null,
    primary key (tenant, key),
    -- The last guard. A tombstone (outcome 3) holds no contents.
    constraint amount_positive check (kind not in (1, 2, 6) or outcome = 3 or amount > 0)
) strict, without rowid;

-- At most one refund per debit, whatever keys are used.
create unique index operations_refund_once on operations (tenant, debit_key) where kind = 3 and outcome = 1;

create table accounts (
    tenant     text    not null,
    account    text    not null,
    currency   text    not null,
    balance    integer not null,
    floor      integer not null,
    state      integer not null,
    created_at integer not null,
    updated_at integer not null,
    primary key (tenant, account),
    constraint balance_not_below_floor check (balance >= floor)
) strict, without rowid;

create table lines (
    id       integer primary key,
    tenant   text    not null,
    key      blob    not null,
    account  text    not null,
    currency text    not null,
    amount   integer not null
) strict;
create index lines_by_account on lines (tenant, account, currency, amount);
create index lines_by_key on lines (tenant, key, account);

create table events (
    tenant     text    not null,
    id         blob    not null,
    type       text    not null,
    key        blob    not null,
    created_at integer not null,
    relayed_at integer,
    primary key (tenant, id)
) strict, without rowid;
create index events_unrelayed on events (created_at, tenant, id) where relayed_at is null;

create table meta (
    id          integer primary key check (id = 1),
    incarnation text not null,
    -- Whose books they are, set once, by the first who serves them.
    participant text,
    -- The high-water mark: how many batches have stored something. There is one
    -- writer at a time, so one counter will do.
    batches     integer not null default 0
) strict;
insert into meta (id, incarnation) values (1, lower(hex(randomblob(16))));

-- +goose Down
drop table meta;
drop table events;
drop table lines;
drop table accounts;
drop table operations;
