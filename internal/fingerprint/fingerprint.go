// Package fingerprint reduces the contents that decide whether two requests ask
// for the same transfer to 32 bytes: SHA-256 over an explicit, versioned,
// length-prefixed encoding, never over protobuf or JSON bytes, which change with
// the library that writes them. The package is pure; golden vectors pin it.
package fingerprint

import (
	"crypto/sha256"
	"encoding/binary"

	"giro/internal/money"
	"giro/internal/names"
)

// Version is the encoding's version, stored beside the fingerprint so that old
// rows still compare.
type Version uint8

// V1 encodes source, destination, amount and currency, in this order.
const V1 Version = 1

// Contents decide whether two requests under one key ask for the same transfer.
// Memo, metadata and expiry do not.
type Contents struct {
	Source      names.AccountRef
	Destination names.AccountRef
	Amount      money.Minor
	Currency    money.Currency
}

// Sum is a fingerprint with the version of its encoding in the first byte.
type Sum [33]byte

// Of gives the contents' fingerprint in the current version.
func Of(c Contents) Sum {
	h := sha256.New()
	h.Write([]byte("giro/transfer"))
	h.Write([]byte{byte(V1)})
	writeText(h, string(c.Source))
	writeText(h, string(c.Destination))
	var amount [8]byte
	binary.BigEndian.PutUint64(amount[:], uint64(c.Amount))
	h.Write(amount[:])
	writeText(h, string(c.Currency))
	var sum Sum
	sum[0] = byte(V1)
	copy(sum[1:], h.Sum(nil))
	return sum
}

func writeText(h interface{ Write([]byte) (int, error) }, s string) {
	var length [4]byte
	binary.BigEndian.PutUint32(length[:], uint32(len(s)))
	_, _ = h.Write(length[:])
	_, _ = h.Write([]byte(s))
}

// Differing names the fields in which two contents differ, in the API's words.
func Differing(a, b Contents) []string {
	var fields []string
	if a.Source != b.Source {
		fields = append(fields, "source")
	}
	if a.Destination != b.Destination {
		fields = append(fields, "destination")
	}
	if a.Amount != b.Amount {
		fields = append(fields, "amount")
	}
	if a.Currency != b.Currency {
		fields = append(fields, "currency")
	}
	return fields
}
