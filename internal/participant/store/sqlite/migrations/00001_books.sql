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
    -- The journal entry: booked was changed by delta, against by the opposite. So
    -- one row is one entry, and none can fail to balance.
    booked             text    not null,
    against            text    not null,
    delta              integer not null,
    seq                integer not null,
    -- What only a participant's own operations have, as JSON text.
    details            text    not null default '',
    primary key (tenant, key),
    -- The last guard. A tombstone (outcome 3) holds no contents.
    constraint amount_positive check (kind not in (1, 2, 6, 10, 15) or outcome = 3 or amount > 0)
) strict, without rowid;

-- An account's lines in order. The number and the time of the last stand in the
-- account's row, and are given out under its lock; neither ever falls.
create unique index operations_by_account on operations (tenant, booked, first_time, seq) where seq > 0;

-- At most one refund per debit, whatever keys are used, one release (13) per
-- suspended refund, and one reversal (16) per journal entry.
create unique index operations_refund_once on operations (tenant, debit_key) where kind in (3, 13, 16) and outcome = 1;

create index operations_suspended on operations (tenant, key) where to_suspense = 1 and kind = 3 and outcome = 1;

create table accounts (
    tenant     text    not null,
    account    text    not null,
    currency   text    not null,
    balance    integer not null,
    floor      integer not null,
    state      integer not null,
    seq        integer not null,
    created_at integer not null,
    updated_at integer not null,
    debit_max    integer not null default 0,
    day_max      integer not null default 0,
    day_zone     text    not null default '',
    spent_on     integer not null default 0,
    spent        integer not null default 0,
    state_reason text    not null default '',
    holder       text    not null default '',
    class        integer not null default 0,
    day_from     integer not null default 0,
    primary key (tenant, account),
    constraint balance_not_below_floor check (balance >= floor)
) strict, without rowid;

-- What is to be announced; a row is deleted once it has been.
create table events (
    created_at integer not null,
    tenant     text    not null,
    id         blob    not null,
    type       text    not null,
    key        blob    not null,
    primary key (created_at, tenant, id)
) strict, without rowid;

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
drop table accounts;
drop table operations;
