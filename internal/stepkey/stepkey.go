// Package stepkey derives the key of each operation from the transfer key and
// the step's name, and from nothing else: no clock, attempt number, host or
// serialised message. So a retry stays safe even when the orchestrator's whole
// database is lost. The package is pure; golden vectors pin it.
package stepkey

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"time"

	"giro/internal/names"
)

// Version is the derivation version. A tenant's version is fixed for ever: keys
// derived under another version would be other operations.
type Version uint8

// V1 is the first derivation version.
const V1 Version = 1

// StepKey is a UUIDv8 (RFC 9562 section 5.8). Equality never rests on it alone:
// a client that sends UUIDv7 keys chooses its time part, so tenant, transfer key
// and step are compared beside it.
type StepKey [16]byte

// The steps of a transfer.
const (
	Debit  = "debit"
	Credit = "credit"
	Refund = "refund"
)

// Derive gives the key of one step. If the transfer key is itself a UUIDv7
// (canonical text, lower case), its 48-bit time is the step key's time part, so
// that the keys of one day lie together in an index.
func Derive(version Version, tenant names.Tenant, key names.TransferKey, step string) StepKey {
	return derive("giro/stepkey", version, string(tenant), string(key), step)
}

// Event gives the id of the event that an applied operation leaves.
func Event(tenant names.Tenant, operation StepKey) StepKey {
	id := derive("giro/event", V1, string(tenant), string(operation[:]), "applied")
	copy(id[:6], operation[:6])
	return id
}

// FinalEvent gives the id of the event that a transfer's final state leaves. A
// rebuilt saga gives the same.
func FinalEvent(tenant names.Tenant, key names.TransferKey) StepKey {
	return derive("giro/event", V1, string(tenant), string(key), "final")
}

// derive hashes a domain, the version and the parts, each with its length before
// it, so that no two lists of parts give the same bytes.
func derive(domain string, version Version, tenant, key, step string) StepKey {
	h := sha256.New()
	h.Write([]byte(domain))
	h.Write([]byte{byte(version)})
	for _, part := range []string{tenant, key, step} {
		var length [4]byte
		binary.BigEndian.PutUint32(length[:], uint32(len(part)))
		h.Write(length[:])
		h.Write([]byte(part))
	}
	var k StepKey
	copy(k[:], h.Sum(nil))
	if v7, ok := parseV7(key); ok {
		copy(k[:6], v7[:6])
	}
	k[6] = k[6]&0x0f | 0x80
	k[8] = k[8]&0x3f | 0x80
	return k
}

// parseV7 reads a UUIDv7 (RFC 9562 section 5.7) in canonical text.
func parseV7(key string) (StepKey, bool) {
	v7, err := Parse(key)
	return v7, err == nil && v7[6]>>4 == 7 && v7[8]>>6 == 2
}

// Time is a transfer key's own time, to the millisecond, if the key is a UUIDv7 in
// canonical text. It is the age that counts for retention: no restart and no loss
// can restamp it.
func Time(key names.TransferKey) (time.Time, bool) {
	v7, ok := parseV7(string(key))
	if !ok {
		return time.Time{}, false
	}
	var ms [8]byte
	copy(ms[2:], v7[:6])
	return time.UnixMilli(int64(binary.BigEndian.Uint64(ms[:]))).UTC(), true //nolint:gosec // 48 bits
}

// From is the lowest key that a step of a transfer key of that time can have, or of
// a later one. Transfer keys of another form have step keys anywhere.
func From(t time.Time) StepKey {
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(min(max(0, t.UnixMilli()), 1<<48-1))) //nolint:gosec // not negative
	var k StepKey
	copy(k[:6], ms[2:])
	return k
}

// ErrMalformed is returned for text that is no canonical lower-case UUID.
var ErrMalformed = errors.New("not a UUID in canonical lower-case text")

// Parse reads the canonical 36-character lower-case text of a UUID of any
// version; other spellings of the same UUID are refused, so that one key has one
// text.
func Parse(s string) (StepKey, error) {
	var k StepKey
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return StepKey{}, ErrMalformed
	}
	for i := range len(s) {
		if s[i] >= 'A' && s[i] <= 'F' {
			return StepKey{}, ErrMalformed
		}
	}
	digits := s[0:8] + s[9:13] + s[14:18] + s[19:23] + s[24:36]
	if _, err := hex.Decode(k[:], []byte(digits)); err != nil {
		return StepKey{}, ErrMalformed
	}
	return k, nil
}

// String is the canonical lower-case text.
func (k StepKey) String() string {
	var b [36]byte
	hex.Encode(b[0:8], k[0:4])
	b[8] = '-'
	hex.Encode(b[9:13], k[4:6])
	b[13] = '-'
	hex.Encode(b[14:18], k[6:8])
	b[18] = '-'
	hex.Encode(b[19:23], k[8:10])
	b[23] = '-'
	hex.Encode(b[24:36], k[10:16])
	return string(b[:])
}

// IsZero says that no key was given.
func (k StepKey) IsZero() bool { return k == StepKey{} }

// Less orders keys as their text does.
func (k StepKey) Less(other StepKey) bool {
	for i := range k {
		if k[i] != other[i] {
			return k[i] < other[i]
		}
	}
	return false
}
