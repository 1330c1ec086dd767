-- +goose Up
-- Which keys may still be asked for, by key, which is by time for UUIDv7: the report to
-- participants that forget old ones. The condition is wrapped, so that no planner takes
-- this index for the sweep, whose own is sagas_due.
create index sagas_unfinished on sagas (key)
    where coalesce(state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING'), false);

-- The database's identity: one that was created anew has another.
create table meta (
    id       bigint not null primary key check (id = 1),
    identity text   not null
);
insert into meta (id, identity) values (1, gen_random_uuid()::text);

-- +goose Down
drop table meta;
drop index sagas_unfinished;
