package rpc

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"buf.build/gen/go/bufbuild/protovalidate/protocolbuffers/go/buf/validate"
	"buf.build/go/protovalidate"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	"giro/internal/money"
	"giro/internal/names"
)

// The patterns that stand in the protos, by what people call them.
const currencyPattern = `^[A-Z]{3}$`

var patternWords = map[string]string{
	`^[A-Za-z0-9._~:-]{1,128}$`:                                      "must be " + names.TransferKeyGrammar,
	`^[a-z0-9][a-z0-9._-]{0,62}$`:                                    "must be " + names.PartGrammar,
	`^([a-z0-9][a-z0-9._-]{0,62})?$`:                                 "must be empty, or " + names.PartGrammar,
	`^[a-z0-9][a-z0-9._-]{0,62}/[a-z0-9][a-z0-9._-]{0,62}$`:          "must be " + names.AccountRefGrammar,
	`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`: "must be a UUID in canonical lower-case text",
	currencyPattern: currencyWords,
}

const currencyWords = "must be an ISO 4217 code that giro takes, in upper case"

// Violations lists everything that is malformed in a request: the rules of its
// proto, and what no pattern can say: a currency is on the closed list, and free
// text (a string with a rule for its length alone) holds no control characters.
// A message without rules has none. The error is not nil only where the rules
// themselves are broken.
func Violations(message proto.Message) ([]Violation, error) {
	var list []Violation
	message = bounded(message)
	if err := protovalidate.Validate(message); err != nil {
		var broken *protovalidate.ValidationError
		if !errors.As(err, &broken) {
			return nil, err
		}
		for _, v := range broken.Violations {
			list = append(list, violation(v))
		}
	}
	list = append(list, beyondPatterns(message.ProtoReflect(), "")...)
	if len(list) > 1 {
		slices.SortStableFunc(list, func(a, b Violation) int { return cmp.Compare(a.Field, b.Field) })
	}
	return list, nil
}

// pairsJudgedMax is the most entries of one map that are judged. It is more than
// any rule allows, so that the map itself is refused where some are passed over.
const pairsJudgedMax = 1000

// bounded gives the message, with no more of each map than is judged: a request
// that is nothing but a huge map must not cost a second of processor time. What
// is given instead shares the rest with it.
func bounded(message proto.Message) proto.Message {
	m := message.ProtoReflect()
	large := false
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		large = large || f.IsMap() && v.Map().Len() > pairsJudgedMax
		return !large
	})
	if !large {
		return message
	}
	out := m.New()
	m.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if !f.IsMap() {
			out.Set(f, v)
			return true
		}
		kept := out.Mutable(f).Map()
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			kept.Set(k, v)
			return kept.Len() < pairsJudgedMax
		})
		return true
	})
	return out.Interface()
}

func violation(v *protovalidate.Violation) Violation {
	field := protovalidate.FieldPathString(v.Proto.GetField())
	words := v.Proto.GetMessage()
	if v.Proto.GetRuleId() == "string.pattern" && v.RuleValue.IsValid() {
		if known, ok := patternWords[v.RuleValue.String()]; ok {
			words = known
		}
	}
	// A rule of the message as a whole names its field in its text.
	if name, rest, ok := strings.Cut(words, ": "); ok && v.Proto.GetRuleId() != "" && v.FieldDescriptor == nil {
		words = rest
		field = strings.TrimPrefix(field+"."+name, ".")
	}
	return Violation{field, strings.TrimPrefix(words, "value ")}
}

// TextViolations refuses control characters, NUL among them, in text that people
// write.
func TextViolations(field, text string) []Violation {
	if strings.ContainsFunc(text, unicode.IsControl) {
		return []Violation{{field, "must hold no control characters"}}
	}
	return nil
}

// plan is what beyondPatterns looks at in one message.
type plan struct {
	currencies, texts, textMaps, durations, children []protoreflect.FieldDescriptor
}

// plans holds a *plan for each message's full name.
var plans sync.Map

func planOf(d protoreflect.MessageDescriptor) *plan {
	if known, ok := plans.Load(d.FullName()); ok {
		return known.(*plan)
	}
	p := &plan{}
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		rules, err := protovalidate.ResolveFieldRules(f)
		if err != nil {
			rules = nil // validation itself reports it
		}
		switch {
		case rules.GetRepeated().GetItems().GetIgnore() == validate.Ignore_IGNORE_ALWAYS: // the call judges each
		case f.IsMap() && f.MapValue().Kind() == protoreflect.StringKind && freeText(rules.GetMap().GetValues().GetString()):
			p.textMaps = append(p.textMaps, f)
		case f.Kind() == protoreflect.MessageKind && !f.IsList() && !f.IsMap() && f.Message().FullName() == "google.protobuf.Duration":
			p.durations = append(p.durations, f)
		case f.Kind() == protoreflect.MessageKind && !f.IsMap():
			if ruled(f.Message(), map[protoreflect.FullName]bool{}) {
				p.children = append(p.children, f)
			}
		case f.Kind() == protoreflect.StringKind && !f.IsList() && rules.GetString().GetPattern() == currencyPattern:
			p.currencies = append(p.currencies, f)
		case f.Kind() == protoreflect.StringKind && !f.IsList() && freeText(rules.GetString()):
			p.texts = append(p.texts, f)
		}
	}
	plans.Store(d.FullName(), p)
	return p
}

func freeText(rules *validate.StringRules) bool { return rules.HasMaxBytes() && !rules.HasPattern() }

// ruled says whether the message or one within it has rules for a field.
func ruled(d protoreflect.MessageDescriptor, seen map[protoreflect.FullName]bool) bool {
	if seen[d.FullName()] {
		return false
	}
	seen[d.FullName()] = true
	for i := range d.Fields().Len() {
		f := d.Fields().Get(i)
		if rules, err := protovalidate.ResolveFieldRules(f); err == nil && rules != nil {
			return true
		}
		if f.Kind() == protoreflect.MessageKind && !f.IsMap() && ruled(f.Message(), seen) {
			return true
		}
	}
	return false
}

func beyondPatterns(m protoreflect.Message, path string) []Violation {
	var list []Violation
	p := planOf(m.Descriptor())
	for _, f := range p.currencies {
		c := money.Currency(m.Get(f).String())
		if len(c) == 3 && isLetters(string(c)) && !c.Known() {
			list = append(list, Violation{path + string(f.Name()), currencyWords})
		}
	}
	for _, f := range p.texts {
		list = append(list, TextViolations(path+string(f.Name()), m.Get(f).String())...)
	}
	for _, f := range p.textMaps {
		m.Get(f).Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			list = append(list, TextViolations(path+string(f.Name()), k.String())...)
			list = append(list, TextViolations(path+string(f.Name())+"["+strconv.Quote(k.String())+"]", v.String())...)
			return true
		})
	}
	for _, f := range p.durations {
		// A rule for a duration looks at seconds and nanoseconds added up.
		if d, ok := m.Get(f).Message().Interface().(*durationpb.Duration); ok && m.Has(f) && d.CheckValid() != nil {
			list = append(list, Violation{path + string(f.Name()), "must be a duration as its type says: nanoseconds below one second, of the seconds' sign"})
		}
	}
	for _, f := range p.children {
		switch {
		case f.IsList():
			for i := range m.Get(f).List().Len() {
				list = append(list, beyondPatterns(m.Get(f).List().Get(i).Message(), path+string(f.Name())+"["+strconv.Itoa(i)+"].")...)
			}
		case m.Has(f):
			list = append(list, beyondPatterns(m.Get(f).Message(), path+string(f.Name())+".")...)
		}
	}
	return list
}

func isLetters(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 'A' || r > 'Z' })
}
