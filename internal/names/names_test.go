package names_test

import (
	"regexp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"giro/internal/names"
)

// The grammars as the protocol writes them.
var (
	keyGrammar  = regexp.MustCompile(`\A[A-Za-z0-9._~:-]{1,128}\z`)
	partGrammar = regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{0,62}\z`)
	refGrammar  = regexp.MustCompile(`\A[a-z0-9][a-z0-9._-]{0,62}/[a-z0-9][a-z0-9._-]{0,62}\z`)
)

// texts draws texts that are within a grammar, just outside it, or far from it.
func texts() *rapid.Generator[string] {
	part := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,64}`)
	return rapid.OneOf(
		part,
		rapid.StringMatching(`[A-Za-z0-9._~:-]{0,130}`),
		rapid.Custom(func(t *rapid.T) string { return part.Draw(t, "left") + "/" + part.Draw(t, "right") }),
		rapid.Custom(func(t *rapid.T) string {
			text := []byte(part.Draw(t, "text"))
			text[rapid.IntRange(0, len(text)-1).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
			return string(text)
		}),
		rapid.String(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }),
	)
}

func TestGrammarsAreTheProtocols(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := texts().Draw(t, "text")
		if got, want := names.TransferKey(text).Valid(), keyGrammar.MatchString(text); got != want {
			t.Fatalf("TransferKey(%q).Valid() = %v, want %v", text, got, want)
		}
		want := partGrammar.MatchString(text)
		if got := names.Tenant(text).Valid(); got != want {
			t.Fatalf("Tenant(%q).Valid() = %v, want %v", text, got, want)
		}
		if got := names.Participant(text).Valid(); got != want {
			t.Fatalf("Participant(%q).Valid() = %v, want %v", text, got, want)
		}
		if got := names.Account(text).Valid(); got != want {
			t.Fatalf("Account(%q).Valid() = %v, want %v", text, got, want)
		}
		if got, want := names.AccountRef(text).Valid(), refGrammar.MatchString(text); got != want {
			t.Fatalf("AccountRef(%q).Valid() = %v, want %v", text, got, want)
		}
	})
}

// Every single byte, alone, in front and behind: 768 texts for each grammar.
func TestGrammarsByteByByte(t *testing.T) {
	for c := range 256 {
		for _, text := range []string{string([]byte{byte(c)}), "a" + string([]byte{byte(c)}), string([]byte{byte(c)}) + "a"} {
			if got, want := names.TransferKey(text).Valid(), keyGrammar.MatchString(text); got != want {
				t.Errorf("TransferKey(%q).Valid() = %v, want %v", text, got, want)
			}
			if got, want := names.Account(text).Valid(), partGrammar.MatchString(text); got != want {
				t.Errorf("Account(%q).Valid() = %v, want %v", text, got, want)
			}
			for _, ref := range []string{text + "/a", "a/" + text} {
				if got, want := names.AccountRef(ref).Valid(), refGrammar.MatchString(ref); got != want {
					t.Errorf("AccountRef(%q).Valid() = %v, want %v", ref, got, want)
				}
			}
		}
	}
}

func TestC14KeysThatAreNone(t *testing.T) {
	for _, key := range []names.TransferKey{"", " ", "   ", "\t", "\x00", "a b", "a\n", "é", "ｋ", "a/b", "a+b", "a\u200b"} {
		if key.Valid() {
			t.Errorf("%q is taken as a transfer key", key)
		}
	}
}

func TestLengths(t *testing.T) {
	for _, c := range []struct {
		length    int
		key, part bool
	}{{0, false, false}, {1, true, true}, {63, true, true}, {64, true, false}, {128, true, false}, {129, false, false}, {1 << 20, false, false}} {
		text := strings.Repeat("a", c.length)
		if got := names.TransferKey(text).Valid(); got != c.key {
			t.Errorf("a transfer key of %d characters: %v, want %v", c.length, got, c.key)
		}
		if got := names.Account(text).Valid(); got != c.part {
			t.Errorf("an account of %d characters: %v, want %v", c.length, got, c.part)
		}
		if got := names.AccountRef(text + "/" + text).Valid(); got != c.part {
			t.Errorf("a reference of two parts of %d characters: %v, want %v", c.length, got, c.part)
		}
	}
}

func TestAccountRefParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		part := rapid.StringMatching(`[a-z0-9][a-z0-9._-]{0,62}`)
		participant, account := part.Draw(t, "participant"), part.Draw(t, "account")
		ref := names.AccountRef(participant + "/" + account)
		if !ref.Valid() || ref.Participant() != names.Participant(participant) || ref.Account() != names.Account(account) {
			t.Fatalf("%q: valid %v, participant %q, account %q", ref, ref.Valid(), ref.Participant(), ref.Account())
		}
	})
	for _, ref := range []names.AccountRef{"", "/", "a", "a/", "/a", "a/b/c", "a//b", " a/b", "a/b ", "A/b", "a/B"} {
		if ref.Valid() {
			t.Errorf("%q is taken as an account reference", ref)
		}
	}
}
