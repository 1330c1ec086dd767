package stepkey_test

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"giro/internal/names"
	"giro/internal/stepkey"
)

const (
	uuidV7      = "01890a5d-ac96-774b-bcce-b302099a8057"
	uuidV7Upper = "01890A5D-AC96-774B-BCCE-B302099A8057"
	uuidV4      = "9b2d6f3e-5c1a-4f0e-8d7b-2a6c9e1f0b34"
	// Version 7, but no RFC 9562 variant.
	uuidV7Variant = "01890a5d-ac96-774b-3cce-b302099a8057"
	uuidV7Bare    = "01890a5dac96774bbcceb302099a8057"
	uuidV7Last    = "ffffffff-ffff-7fff-bfff-ffffffffffff"
)

// golden vectors were computed by another program, in another language, from the
// written encoding. They never change: a key derived otherwise would be another
// operation, and a retry would move money twice.
var golden = []struct {
	tenant                names.Tenant
	key                   string
	debit, credit, refund string
}{
	{"acme", "a", "e40b8cca-bb83-8cb6-af22-e899d3187f2d", "5b81df67-075d-8918-9aa7-93ed6310587e", "67673599-5dda-8d8d-8864-f23cc0b6db4a"},
	{"acme", "order-2024.0001_~:x", "1d378846-3567-8ad2-b30a-8f8db98c4a3a", "f3d6f936-b2a7-85b1-a894-688b7314167d", "5e2be537-dfa4-8bcb-9990-8cd1a347ae75"},
	{"acme", strings.Repeat("k", 128), "3c1c455a-fff2-8dbb-8952-e1fc139b1899", "51879393-6957-8f22-a7b4-fc911734ab55", "7c325b43-fce8-830a-b756-1bfcf35e3a4d"},
	{"acme", uuidV7, "01890a5d-ac96-863a-875c-e6f828856576", "01890a5d-ac96-8280-90cc-cbf49a915f14", "01890a5d-ac96-8569-8e27-0b08efbfe9e6"},
	{"acme", uuidV7Upper, "d3d11790-6ec4-8b54-bcc6-1c5ea1ef927f", "dd6fa1be-744a-8e2c-bc8e-4df43cae1994", "efdf8369-9035-84ff-a60a-fb447dc3b38b"},
	{"acme", uuidV4, "bd9d9fb3-44da-8549-a54d-4a8938aa6960", "20a7a7a1-e0f3-8fff-a00d-525e84ddea8d", "0b734135-efbf-8e9d-bf8a-0d2d44b0f2b2"},
	{"acme", uuidV7Variant, "b0f03c09-2070-829f-a6ea-36d10680c13d", "e778be8c-9efc-8f44-be64-397f2d7d3f82", "4a43c4eb-2978-8edf-b243-effc39269894"},
	{"acme", uuidV7Bare, "9d569029-5a85-82ee-bc05-994535f84643", "300809b5-e981-84f6-99eb-748d01235be3", "80ae225b-1ee2-8a68-bb40-538d9e770c4d"},
	{"acme", uuidV7Last, "ffffffff-ffff-8c5b-ad40-1bc5b85b71a7", "ffffffff-ffff-8f7a-b45d-c64fad8be37a", "ffffffff-ffff-80ff-b0c3-8eb89e6e1fb3"},
	{"dev", "a", "8a7c246a-ee93-8131-b5af-121c83cbfda8", "a8822a12-4649-82c5-ac92-223b8d079282", "d5e7910d-cc2d-8232-b1bb-ef5ab7f2f793"},
	{"dev", "order-2024.0001_~:x", "2c55e14f-d241-8b41-9c3b-aecde09f38d1", "77772714-111e-843a-a3d5-528e9171d059", "d7064afc-b614-8aa3-9323-28e27f3e6b3d"},
	{"dev", strings.Repeat("k", 128), "fbbe5d93-981d-8d1c-8952-920f5f1ab9b1", "6f940bcb-8607-8be8-8eac-582566f32c29", "a310a193-566f-8107-8a24-9d65714b2eda"},
	{"dev", uuidV7, "01890a5d-ac96-8c3d-9e5d-936d0735a6de", "01890a5d-ac96-881a-a8f9-981f47aae7e9", "01890a5d-ac96-8142-bd4a-12d4a32ab71f"},
	{"dev", uuidV7Upper, "221943e4-9bd2-82d6-801c-1ff169d7d77e", "ba5205df-3d02-8d32-8d4e-c25c03a9fb54", "e5febc8b-6d0d-8a24-85cb-627bf190a4c8"},
	{"dev", uuidV4, "87c3ba70-45e6-8d90-8a1d-f069958159e6", "e88af6c5-5395-8a0c-90f1-4f6a2fb6cb3f", "07cf7f80-db0c-82dc-ac43-bac58ea4f199"},
	{"dev", uuidV7Variant, "8610a72d-20e9-8dc2-8fcc-fadb8180f9f3", "316b021f-763e-8c1f-9af3-88549fc31cb5", "a4e72bd1-e4a1-85c2-9073-4801da893878"},
	{"dev", uuidV7Bare, "6b4989ea-56e6-8dc2-8769-bbd135a19707", "bdd59f55-293f-8144-bbc4-7cae1a8ad002", "dd89010f-5cbb-8588-9497-2db03c17d955"},
	{"dev", uuidV7Last, "ffffffff-ffff-898c-ab6f-f544dec07cbd", "ffffffff-ffff-8e34-a7b4-db0445dd98e6", "ffffffff-ffff-8a62-b2d0-35ea80bae11a"},
}

func TestC13GoldenStepKeys(t *testing.T) {
	for _, g := range golden {
		for step, want := range map[string]string{stepkey.Debit: g.debit, stepkey.Credit: g.credit, stepkey.Refund: g.refund} {
			if got := stepkey.Derive(stepkey.V1, g.tenant, names.TransferKey(g.key), step).String(); got != want {
				t.Errorf("Derive(V1, %s, %s, %s) = %s, want %s", g.tenant, g.key, step, got, want)
			}
		}
	}
}

func TestC13AnotherVersionIsAnotherKey(t *testing.T) {
	if got, want := stepkey.Derive(2, "acme", "a", stepkey.Debit).String(), "21d9471d-2f5e-807d-b5c9-bd412d39f7c9"; got != want {
		t.Errorf("Derive(2, acme, a, debit) = %s, want %s", got, want)
	}
}

// goldenEvents hold the debit's event and the final event of a transfer.
var goldenEvents = []struct {
	tenant                   names.Tenant
	key                      names.TransferKey
	operation, event, finals string
}{
	{"acme", "a", "e40b8cca-bb83-8cb6-af22-e899d3187f2d", "e40b8cca-bb83-80b2-bb76-eba75dc51a9e", "d350ee44-24e7-84a3-84fc-40b6daaa7f8b"},
	{"acme", uuidV7, "01890a5d-ac96-863a-875c-e6f828856576", "01890a5d-ac96-860f-8ca2-6a8d5b0f9ec8", "01890a5d-ac96-813f-9164-820dfdf1f691"},
	{"dev", "a", "8a7c246a-ee93-8131-b5af-121c83cbfda8", "8a7c246a-ee93-8bc9-a8d0-50015d25e38a", "dd3b249e-a282-8ea2-955c-704ee5c08eab"},
	{"dev", uuidV7, "01890a5d-ac96-8c3d-9e5d-936d0735a6de", "01890a5d-ac96-8e1d-8426-b4e1eeb54de8", "01890a5d-ac96-8aeb-8c26-09ce7ab72e72"},
}

func TestC13GoldenEventIDs(t *testing.T) {
	for _, g := range goldenEvents {
		operation := stepkey.Derive(stepkey.V1, g.tenant, g.key, stepkey.Debit)
		if operation.String() != g.operation {
			t.Errorf("the debit of %s %s is %s, want %s", g.tenant, g.key, operation, g.operation)
		}
		if got := stepkey.Event(g.tenant, operation).String(); got != g.event {
			t.Errorf("Event(%s, %s) = %s, want %s", g.tenant, operation, got, g.event)
		}
		if got := stepkey.FinalEvent(g.tenant, g.key).String(); got != g.finals {
			t.Errorf("FinalEvent(%s, %s) = %s, want %s", g.tenant, g.key, got, g.finals)
		}
	}
}

func TestPartsDoNotRunTogether(t *testing.T) {
	a := stepkey.Derive(stepkey.V1, "ab", "c", stepkey.Debit)
	b := stepkey.Derive(stepkey.V1, "a", "bc", stepkey.Debit)
	if a.String() != "c2abfee9-6cd8-8bc8-89cb-b4941f38c01f" || b.String() != "cf0c5adb-e6d2-8c02-b463-fddd1b3e8204" {
		t.Errorf("(ab, c) is %s and (a, bc) is %s", a, b)
	}
	if stepkey.Derive(stepkey.V1, "a", "bdebit", "") == stepkey.Derive(stepkey.V1, "a", "b", "debit") {
		t.Error("transfer key and step run together")
	}
}

func TestVersionVariantAndTimePart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tenant := names.Tenant(rapid.StringMatching(`[a-z0-9]{1,63}`).Draw(t, "tenant"))
		key := rapid.OneOf(
			rapid.StringMatching(`[A-Za-z0-9._~:-]{1,128}`),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[1-8][0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12}`),
			rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}`),
		).Draw(t, "key")
		canonical := len(key) == 36 && key[14] == '7' && strings.ContainsRune("89ab", rune(key[19])) && isCanonicalUUID(key)
		seen := map[stepkey.StepKey]string{}
		for _, step := range []string{stepkey.Debit, stepkey.Credit, stepkey.Refund} {
			k := stepkey.Derive(stepkey.V1, tenant, names.TransferKey(key), step)
			text := k.String()
			if k[6]>>4 != 8 || k[8]>>6 != 2 || text[14] != '8' || !strings.ContainsRune("89ab", rune(text[19])) {
				t.Fatalf("%s is no UUIDv8", text)
			}
			// 48 random bits are equal once in 2^48, which no run will see.
			if sameTime := text[:13] == head(key); sameTime != canonical {
				t.Fatalf("key %q gives %s: same time part %v, want %v", key, text, sameTime, canonical)
			}
			if other, twice := seen[k]; twice {
				t.Fatalf("%s and %s have one key", other, step)
			}
			seen[k] = step
			if again := stepkey.Derive(stepkey.V1, tenant, names.TransferKey(key), step); again != k {
				t.Fatalf("derived again: %s, then %s", k, again)
			}
		}
	})
}

func head(key string) string {
	if len(key) < 13 {
		return ""
	}
	return key[:13]
}

func isCanonicalUUID(s string) bool {
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || (!dash && !strings.ContainsRune("0123456789abcdef", rune(s[i]))) {
			return false
		}
	}
	return len(s) == 36
}

func TestParseReadsWhatStringWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var k stepkey.StepKey
		copy(k[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "key"))
		text := k.String()
		if !isCanonicalUUID(text) {
			t.Fatalf("%q is not canonical", text)
		}
		if got, err := stepkey.Parse(text); err != nil || got != k {
			t.Fatalf("Parse(%q) = %s, %v", text, got, err)
		}
	})
}

func TestParseTakesCanonicalTextAlone(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := []byte(rapid.StringMatching(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`).Draw(t, "text"))
		text[rapid.IntRange(0, 35).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
		_, err := stepkey.Parse(string(text))
		if want := isCanonicalUUID(string(text)); (err == nil) != want {
			t.Fatalf("Parse(%q): %v, want canonical %v", text, err, want)
		}
	})
	for _, text := range []string{"", " ", uuidV7Upper, uuidV7Bare, uuidV7 + " ", " " + uuidV7, uuidV7[:35], uuidV7 + "0",
		"{" + uuidV7 + "}", "urn:uuid:" + uuidV7, strings.Repeat("-", 36), strings.Repeat("0", 36), strings.Repeat("a", 1<<20),
		"01890a5da-c96-774b-bcce-b302099a8057", "01890a5d-ac96-774b-bcce-b302099a805g", "01890a5d-ac96-774b-bcce-b302099a80\x00\x00"} {
		if k, err := stepkey.Parse(text); err == nil {
			t.Errorf("Parse(%.40q) = %s", text, k)
		}
	}
}

func TestLessOrdersAsTextDoes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a, b stepkey.StepKey
		copy(a[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "a"))
		copy(b[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "b"))
		if rapid.Bool().Draw(t, "near") {
			b = a
			b[rapid.IntRange(0, 15).Draw(t, "place")] = rapid.Byte().Draw(t, "byte")
		}
		if a.Less(b) != (a.String() < b.String()) || b.Less(a) != (b.String() < a.String()) {
			t.Fatalf("%s and %s: Less %v and %v", a, b, a.Less(b), b.Less(a))
		}
	})
}

func TestIsZero(t *testing.T) {
	if !(stepkey.StepKey{}).IsZero() {
		t.Error("no key is not zero")
	}
	for i := range 16 {
		k := stepkey.StepKey{}
		k[i] = 1
		if k.IsZero() {
			t.Errorf("%s is zero", k)
		}
	}
}

// RFC 9562, appendix A.6: 2022-02-22 14:22:22 at UTC-05:00.
func TestTimeOfAKey(t *testing.T) {
	const rfc = "017f22e2-79b0-7cc3-98c4-dc0c0c07398f"
	at, ok := stepkey.Time(rfc)
	if want := time.Date(2022, 2, 22, 19, 22, 22, 0, time.UTC); !ok || !at.Equal(want) {
		t.Errorf("%v, %v, want %v", at, ok, want)
	}
	if last, ok := stepkey.Time(uuidV7Last); !ok || last.UnixMilli() != 1<<48-1 {
		t.Errorf("the last: %v, %v", last, ok)
	}
	for _, key := range []names.TransferKey{"", "a", uuidV7Upper, uuidV4, uuidV7Variant, uuidV7Bare} {
		if at, ok := stepkey.Time(key); ok {
			t.Errorf("%q: %v", key, at)
		}
	}
}

// The step keys of older transfer keys all lie below From, those of others do not.
func TestStepKeysLieByTime(t *testing.T) {
	at, _ := stepkey.Time(uuidV7)
	key := stepkey.Derive(stepkey.V1, "acme", uuidV7, stepkey.Debit)
	if from := stepkey.From(at); key.Less(from) {
		t.Errorf("%v lies below %v", key, from)
	}
	if from := stepkey.From(at.Add(time.Millisecond)); !key.Less(from) {
		t.Errorf("%v does not lie below %v", key, from)
	}
	if stepkey.From(time.Time{}) != (stepkey.StepKey{}) {
		t.Error("before 1970 lies nothing")
	}
}
