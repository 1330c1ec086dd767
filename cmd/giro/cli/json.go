package cli

import (
	"bytes"
	"encoding/json"
	"io"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
)

// writeJSON writes a message as JSON, indented the same way every time; 64-bit
// numbers are strings.
func writeJSON(w io.Writer, m proto.Message) error {
	raw, err := marshal(m)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		return err
	}
	return writeLine(w, b.Bytes())
}

// writeJSONLine writes a message as one line of JSON.
func writeJSONLine(w io.Writer, m proto.Message) error {
	raw, err := marshal(m)
	if err != nil {
		return err
	}
	return compactLine(w, raw)
}

func compactLine(w io.Writer, raw []byte) error {
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		return err
	}
	return writeLine(w, b.Bytes())
}

func marshal(m proto.Message) ([]byte, error) {
	return protojson.MarshalOptions{EmitUnpopulated: true}.Marshal(m)
}

func writeLine(w io.Writer, text []byte) error {
	_, err := w.Write(append(text, '\n'))
	return err
}
