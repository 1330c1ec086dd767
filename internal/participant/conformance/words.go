package conformance

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// textMax bounds one text in a failure.
const textMax = 100

// words shows a message for people: the fields that are set, in order.
func words(m proto.Message) string {
	if m == nil || !m.ProtoReflect().IsValid() {
		return "nothing"
	}
	if t, ok := m.(*timestamppb.Timestamp); ok {
		return t.AsTime().Format("2006-01-02T15:04:05.000000Z")
	}
	var fields []protoreflect.FieldDescriptor
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, _ protoreflect.Value) bool {
		fields = append(fields, f)
		return true
	})
	slices.SortFunc(fields, func(a, b protoreflect.FieldDescriptor) int { return int(a.Number()) - int(b.Number()) })
	var parts []string
	for _, f := range fields {
		parts = append(parts, string(f.Name())+"="+fieldWords(f, m.ProtoReflect().Get(f)))
	}
	if len(parts) == 0 {
		return "{}"
	}
	return "{" + strings.Join(parts, " ") + "}"
}

func fieldWords(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	if f.IsList() {
		var items []string
		for i := range v.List().Len() {
			items = append(items, oneWord(f, v.List().Get(i)))
		}
		return "[" + strings.Join(items, " ") + "]"
	}
	return oneWord(f, v)
}

func oneWord(f protoreflect.FieldDescriptor, v protoreflect.Value) string {
	switch f.Kind() {
	case protoreflect.MessageKind:
		return words(v.Message().Interface())
	case protoreflect.EnumKind:
		if known := f.Enum().Values().ByNumber(v.Enum()); known != nil {
			return short(string(known.Name()))
		}
		return strconv.Itoa(int(v.Enum()))
	case protoreflect.StringKind:
		text := v.String()
		if len(text) > textMax {
			return strconv.Quote(text[:textMax]) + fmt.Sprintf("... (%d bytes)", len(text))
		}
		return strconv.Quote(text)
	}
	return fmt.Sprint(v.Interface())
}

// short is an enum's value without the prefix of its type.
func short(name string) string {
	for _, prefix := range []string{"OPERATION_KIND_", "OUTCOME_", "REFUSAL_REASON_"} {
		name = strings.TrimPrefix(name, prefix)
	}
	return name
}
