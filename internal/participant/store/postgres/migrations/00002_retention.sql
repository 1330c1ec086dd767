-- +goose Up
-- What the books hold about forgetting. A key older than archived_before may have
-- been archived; it never falls, and is committed before anything is deleted.
-- unfinished_since is the oldest key that any of the orchestrators may still ask
-- for, NULL while one of them cannot tell, or none has reported.
alter table meta
    add column retention_seconds bigint not null default 0,
    add column archived_before timestamptz,
    add column unfinished_since timestamptz;

-- The last report of each orchestrator's database.
create table orchestrators (
    orchestrator     text collate "C" not null primary key,
    reported_at      timestamptz      not null,
    oldest           timestamptz
);

-- +goose Down
drop table orchestrators;
alter table meta drop column retention_seconds, drop column archived_before, drop column unfinished_since;
