package rpc

import (
	"encoding/base64"
	"encoding/binary"
)

// Page sizes, in items.
const (
	PageSizeDefault = 100
	PageSizeMax     = 1000
)

// tokenVersion is the first byte of a page token. Tokens of another version are
// refused: the reader starts again.
const tokenVersion = 1

// PageSize is how many items a page holds: 0 means 100, more than 1,000 is 1,000,
// a negative size is refused.
func PageSize(size int32) (int, error) {
	switch {
	case size < 0:
		return 0, InvalidArgument([]Violation{{"page_size", "must be at least 0"}})
	case size == 0:
		return PageSizeDefault, nil
	}
	return min(int(size), PageSizeMax), nil
}

// PageToken makes an opaque token that holds the place after which the next page
// begins. scope is what is listed, with the list's filter: a token serves no other
// list.
func PageToken(scope string, place ...string) string {
	b := []byte{tokenVersion}
	for _, part := range append([]string{scope}, place...) {
		b = binary.AppendUvarint(b, uint64(len(part)))
		b = append(b, part...)
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

// ParsePageToken gives the parts of the place that a token of this scope holds;
// parts of "" for an empty token: the start. The caller judges the parts, and
// gives InvalidPageToken if they are not what it wrote.
func ParsePageToken(token, scope string, parts int) ([]string, error) {
	place := make([]string, parts)
	if token == "" {
		return place, nil
	}
	b, err := base64.RawURLEncoding.Strict().DecodeString(token)
	if err != nil || len(b) == 0 || b[0] != tokenVersion {
		return nil, InvalidPageToken()
	}
	b = b[1:]
	for i := -1; i < parts; i++ {
		length, n := binary.Uvarint(b)
		if n <= 0 || length > uint64(len(b)-n) {
			return nil, InvalidPageToken()
		}
		part := string(b[n : n+int(length)])
		b = b[n+int(length):]
		if i >= 0 {
			place[i] = part
		} else if part != scope {
			return nil, InvalidPageToken()
		}
	}
	if len(b) > 0 {
		return nil, InvalidPageToken()
	}
	return place, nil
}

// InvalidPageToken is the error for a token that this list did not give.
func InvalidPageToken() error {
	return InvalidArgument([]Violation{{"page_token", "must be the next_page_token of the same list; leave it out to start again"}})
}
