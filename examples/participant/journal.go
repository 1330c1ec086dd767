package main

import (
	"database/sql"

	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"
	_ "modernc.org/sqlite" // the driver

	pb "giro/proto/giro/participant/v1"
)

// journal is one SQLite file, a row for what one call stored. The lock is kept, so
// that no second process writes to the same books.
type journal struct {
	db          *sql.DB
	incarnation string
	rows        int64 // only grows, with everything that is stored: the high-water mark
}

// openJournal makes the file or reads it, and gives each stored operation to put.
func openJournal(name string, put func(*pb.StoredOperation)) (*journal, error) {
	db, err := sql.Open("sqlite", "file:"+name+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=locking_mode(EXCLUSIVE)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	if _, err := db.Exec(`create table if not exists journal (id integer primary key, record blob not null);
		create table if not exists identity (id integer primary key check (id = 1), incarnation text not null);
		insert into identity values (1, ?) on conflict do nothing`, uuid.NewString()); err != nil {
		return nil, err
	}
	j := &journal{db: db}
	if err := db.QueryRow(`select incarnation from identity`).Scan(&j.incarnation); err != nil {
		return nil, err
	}
	rows, err := db.Query(`select id, record from journal order by id`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var raw []byte
		record := &pb.ListOperationsResponse{}
		if err := rows.Scan(&j.rows, &raw); err != nil {
			return nil, err
		}
		if err := proto.Unmarshal(raw, record); err != nil {
			return nil, err
		}
		for _, s := range record.Operations {
			put(s)
		}
	}
	return j, rows.Err()
}

// append writes one row and returns when the disk has it.
func (j *journal) append(operations []*pb.StoredOperation) error {
	raw, err := proto.Marshal(&pb.ListOperationsResponse{Operations: operations})
	if err == nil {
		_, err = j.db.Exec(`insert into journal values (?, ?)`, j.rows+1, raw)
	}
	if err == nil {
		j.rows++
	}
	return err
}
