-- +goose Up
-- A participant's books. Numbers of kinds, outcomes, reasons and states are the
-- book's. Text that is ordered or compared is in collation "C": byte for byte.

create table operations (
    tenant             text collate "C" not null,
    key                uuid             not null,
    transfer_key       text collate "C" not null,
    step               text collate "C" not null,
    kind               smallint         not null,
    account            text collate "C" not null,
    amount             bigint           not null,
    currency           text collate "C" not null,
    counterparty       text collate "C" not null,
    debit_key          uuid,
    outcome            smallint         not null,
    reason             smallint         not null,
    amount_moved       bigint           not null,
    balance_after      bigint           not null,
    debit_outcome      smallint         not null,
    first_refund_key   uuid,
    first_refund_moved bigint           not null,
    to_suspense        boolean          not null,
    first_time         timestamptz      not null,
    -- The journal entry: booked was changed by delta, against by the opposite. So
    -- one row is one entry, and none can fail to balance.
    booked             text collate "C" not null,
    against            text collate "C" not null,
    delta              bigint           not null,
    seq                bigint           not null,
    -- What only a participant's own operations have, as JSON text.
    details            text             not null default '',
    primary key (tenant, key),
    -- The last guard. A tombstone (outcome 3) holds no contents.
    constraint amount_positive check (kind not in (1, 2, 6, 10, 15) or outcome = 3 or amount > 0)
);

-- At most one refund per debit, whatever keys are used, one release (13) per
-- suspended refund, and one reversal (16) per journal entry.
create unique index operations_refund_once on operations (tenant, debit_key) where kind in (3, 13, 16) and outcome = 1;

create index operations_suspended on operations (tenant, key) where to_suspense and kind = 3 and outcome = 1;

-- An account's lines in order. The number and the time of the last stand in the
-- account's row, and are given out under its lock; neither ever falls.
create unique index operations_by_account on operations (tenant, booked, first_time, seq) where seq > 0;

create table accounts (
    tenant     text collate "C" not null,
    account    text collate "C" not null,
    currency   text collate "C" not null,
    balance    bigint           not null,
    floor      bigint           not null,
    state      smallint         not null,
    seq        bigint           not null,
    created_at timestamptz      not null,
    updated_at timestamptz      not null,
    debit_max    bigint not null default 0,
    day_max      bigint not null default 0,
    day_zone     text   not null default '',
    spent_on     bigint not null default 0,
    spent        bigint not null default 0,
    state_reason text   not null default '',
    holder       text   not null default '',
    class        smallint not null default 0,
    day_from     bigint not null default 0,
    primary key (tenant, account),
    constraint balance_not_below_floor check (balance >= floor)
);

-- What is to be announced; a row is deleted once it has been.
create table events (
    created_at timestamptz      not null,
    tenant     text collate "C" not null,
    id         uuid             not null,
    type       text             not null,
    key        uuid             not null,
    primary key (created_at, tenant, id)
);

create table meta (
    id          smallint primary key check (id = 1),
    incarnation text not null,
    -- Whose books they are, set once, by the first who serves them.
    participant text
);
insert into meta (id, incarnation) values (1, gen_random_uuid()::text);

-- The high-water mark is the sum of these counters. Each batch that stores
-- anything raises one of them, so that a copy which lacks even a tombstone has a
-- lower mark. The largest of ids that are given in order would not do: of two
-- batches at once, the one with the higher id may commit first, and the other then
-- moves nothing. One counter would have all batches wait for each other's COMMIT,
-- and a row for each batch would be kept for ever. Of 64, picked at random, two
-- batches seldom meet; it is the last lock that a batch takes, so nobody who holds
-- one waits for another's.
create table marks (
    slot    smallint primary key,
    batches bigint   not null
);
insert into marks (slot, batches) select slot, 0 from generate_series(0, 63) as slot;

-- +goose Down
drop table marks;
drop table meta;
drop table events;
drop table accounts;
drop table operations;
