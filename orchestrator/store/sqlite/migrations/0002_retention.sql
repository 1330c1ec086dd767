-- +goose Up
-- Which keys may still be asked for, by key, which is by time for UUIDv7: the report to
-- participants that forget old ones.
create index sagas_unfinished on sagas (key) where state in ('DEBITING', 'CREDITING', 'CANCELLING', 'REFUNDING');

-- The database's identity, a UUID: one that was created anew has another.
create table meta (
    id       integer not null primary key check (id = 1),
    identity text    not null
) strict;
insert into meta (id, identity)
    values (1, lower(hex(randomblob(4)) || '-' || hex(randomblob(2)) || '-4' || substr(hex(randomblob(2)), 2) || '-8'
        || substr(hex(randomblob(2)), 2) || '-' || hex(randomblob(6))));

-- +goose Down
drop table meta;
drop index sagas_unfinished;
