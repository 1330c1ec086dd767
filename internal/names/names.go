// Package names holds the names that giro's parties call each other by, and
// their grammars. All are compared byte for byte. The package is pure.
package names

import "strings"

// Tenant owns accounts, keys and transfers: [a-z0-9][a-z0-9._-]{0,62}.
type Tenant string

// TransferKey is chosen by the client, one for each intended transfer: 1 to 128
// characters of [A-Za-z0-9._~:-].
type TransferKey string

// Participant is the registered name of a service that holds accounts:
// [a-z0-9][a-z0-9._-]{0,62}.
type Participant string

// Account is a client's account at one participant: [a-z0-9][a-z0-9._-]{0,62}.
// A participant's own accounts (see book) hold a colon, so that no client can
// name one.
type Account string

// AccountRef names an account anywhere: participant/account.
type AccountRef string

// TransferKeyLengthMax is the most characters of a transfer key.
const TransferKeyLengthMax = 128

// PartLengthMax is the most characters of a tenant, participant or account.
const PartLengthMax = 63

// What each grammar is called in messages to people.
const (
	TransferKeyGrammar = "1 to 128 characters of A-Z a-z 0-9 . _ ~ : -"
	PartGrammar        = "1 to 63 characters of a-z 0-9 . _ -, starting with a letter or digit"
	AccountRefGrammar  = "participant/account, each 1 to 63 characters of a-z 0-9 . _ -, starting with a letter or digit"
)

// Valid says whether the key is within its grammar.
func (k TransferKey) Valid() bool {
	if len(k) == 0 || len(k) > TransferKeyLengthMax {
		return false
	}
	for i := range len(k) {
		c := k[i]
		if !isLower(c) && !isUpper(c) && !isDigit(c) && !strings.ContainsRune("._~:-", rune(c)) {
			return false
		}
	}
	return true
}

// Valid says whether the tenant is within its grammar.
func (t Tenant) Valid() bool { return validPart(string(t)) }

// Valid says whether the participant is within its grammar.
func (p Participant) Valid() bool { return validPart(string(p)) }

// Valid says whether the account is within its grammar.
func (a Account) Valid() bool { return validPart(string(a)) }

// Valid says whether both parts are within their grammar.
func (r AccountRef) Valid() bool {
	participant, account, found := strings.Cut(string(r), "/")
	return found && validPart(participant) && validPart(account)
}

// Participant is the part before the slash.
func (r AccountRef) Participant() Participant {
	participant, _, _ := strings.Cut(string(r), "/")
	return Participant(participant)
}

// Account is the part after the slash.
func (r AccountRef) Account() Account {
	_, account, _ := strings.Cut(string(r), "/")
	return Account(account)
}

func validPart(s string) bool {
	if len(s) == 0 || len(s) > PartLengthMax {
		return false
	}
	if !isLower(s[0]) && !isDigit(s[0]) {
		return false
	}
	for i := range len(s) {
		c := s[i]
		if !isLower(c) && !isDigit(c) && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func isLower(c byte) bool { return c >= 'a' && c <= 'z' }
func isUpper(c byte) bool { return c >= 'A' && c <= 'Z' }
func isDigit(c byte) bool { return c >= '0' && c <= '9' }
