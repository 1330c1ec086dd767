-- +goose Up
-- What the books hold about forgetting. A key older than archived_before may have
-- been archived; it never falls, and is committed before anything is deleted.
-- unfinished_since is the oldest key that any of the orchestrators may still ask
-- for, NULL while one of them cannot tell, or none has reported.
alter table meta add column retention_seconds integer not null default 0;
alter table meta add column archived_before integer;
alter table meta add column unfinished_since integer;

-- The last report of each orchestrator's database.
create table orchestrators (
    orchestrator     text    not null primary key,
    reported_at      integer not null,
    oldest           integer
) strict, without rowid;

-- +goose Down
drop table orchestrators;
alter table meta drop column unfinished_since;
alter table meta drop column archived_before;
alter table meta drop column retention_seconds;
