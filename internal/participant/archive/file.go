package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"giro/internal/participant/book"
	"giro/internal/stepkey"
)

// Line is one archived operation in the file: a JSON object on a line of its own. An
// operation may stand twice, where a run ended between its copy and its deletion; both
// lines are then the same.
type Line struct {
	Tenant      string `json:"tenant"`
	Key         string `json:"key"`
	TransferKey string `json:"transfer_key"`
	Step        string `json:"step"`
	Kind        string `json:"kind"`
	Account     string `json:"account,omitempty"`
	// Amounts are in minor units.
	Amount           int64           `json:"amount"`
	Currency         string          `json:"currency,omitempty"`
	Counterparty     string          `json:"counterparty,omitempty"`
	DebitKey         string          `json:"debit_key,omitempty"`
	Outcome          string          `json:"outcome"`
	Reason           string          `json:"reason,omitempty"`
	AmountMoved      int64           `json:"amount_moved"`
	BalanceAfter     int64           `json:"balance_after"`
	FirstTime        time.Time       `json:"first_time"`
	DebitOutcome     string          `json:"debit_outcome,omitempty"`
	FirstRefundKey   string          `json:"first_refund_key,omitempty"`
	FirstRefundMoved int64           `json:"first_refund_moved,omitempty"`
	ToSuspense       bool            `json:"to_suspense,omitempty"`
	Details          json.RawMessage `json:"details,omitempty"`
	// Entry is the operation's journal entry; left out where nothing moved.
	Entry *Entry `json:"entry,omitempty"`
}

// Entry says what was changed by how much: Booked by Delta, Against by the opposite.
type Entry struct {
	Booked  string `json:"booked"`
	Against string `json:"against"`
	Delta   int64  `json:"delta"`
	// Seq numbers the lines of Booked; left out for an account of the participant's own.
	Seq int64 `json:"seq,omitempty"`
}

var outcomes = map[book.Outcome]string{book.Applied: "APPLIED", book.Refused: "REFUSED", book.Cancelled: "CANCELLED"}

// LineOf gives an operation as it stands in the file.
func LineOf(s book.Stored) Line {
	l := Line{
		Tenant: string(s.Tenant), Key: s.Key.String(), TransferKey: string(s.TransferKey), Step: s.Step, Kind: s.Kind.String(),
		Account: string(s.Account), Amount: int64(s.Amount), Currency: string(s.Currency), Counterparty: string(s.Counterparty),
		DebitKey: keyText(s.DebitKey), Outcome: outcomes[s.Outcome], Reason: s.Reason.String(), AmountMoved: int64(s.AmountMoved),
		BalanceAfter: int64(s.BalanceAfter), FirstTime: s.FirstTime, DebitOutcome: outcomes[s.DebitOutcome],
		FirstRefundKey: keyText(s.FirstRefundKey), FirstRefundMoved: int64(s.FirstRefundMoved), ToSuspense: s.ToSuspense,
	}
	if json.Valid([]byte(s.Details)) {
		l.Details = json.RawMessage(s.Details)
	}
	if s.Delta != 0 {
		l.Entry = &Entry{Booked: string(s.Booked), Against: string(s.Against), Delta: int64(s.Delta), Seq: s.Seq}
	}
	return l
}

func keyText(k stepkey.StepKey) string {
	if k.IsZero() {
		return ""
	}
	return k.String()
}

// File is an archive file that is appended to, by one process at a time.
type File struct {
	file *os.File
	// size is how much of it is whole batches.
	size int64
}

// ErrInUse is returned for a file that another run appends to.
var ErrInUse = errors.New("another run appends to this file; give each a file of its own")

// OpenFile opens a file to append to, or makes it. What a run that died left behind a
// last whole line is cut off: its operations are still in the books.
func OpenFile(path string) (*File, error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	f := &File{file: file}
	if err := f.begin(path); err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), file.Close())
	}
	return f, nil
}

func (f *File) begin(path string) error {
	info, err := f.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("it is no plain file, so nothing can be made durable in it")
	}
	if err := lock(f.file); err != nil {
		return err
	}
	if info, err = f.file.Stat(); err != nil {
		return err
	}
	if f.size, err = wholeLines(f.file, info.Size()); err != nil {
		return err
	}
	if err := f.file.Truncate(f.size); err != nil {
		return err
	}
	// The name must be durable too, before anything is deleted.
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

// wholeLines is the size up to the last line's end.
func wholeLines(file io.ReaderAt, size int64) (int64, error) {
	block := make([]byte, 64<<10)
	for end := size; end > 0; {
		from := max(0, end-int64(len(block)))
		part := block[:end-from]
		if _, err := file.ReadAt(part, from); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(part, '\n'); i >= 0 {
			return from + int64(i) + 1, nil
		}
		end = from
	}
	return 0, nil
}

// Keep appends operations and makes them durable. After a failure none of them
// stands in the file.
func (f *File) Keep(operations []book.Stored) error {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	for _, o := range operations {
		if err := encoder.Encode(LineOf(o)); err != nil {
			return fmt.Errorf("archive %s: %w", o.Key, err)
		}
	}
	_, err := f.file.WriteAt(text.Bytes(), f.size)
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += int64(text.Len())
	return nil
}

// Close closes the file.
func (f *File) Close() error { return f.file.Close() }
