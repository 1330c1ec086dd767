package rpc

import (
	"bytes"

	"google.golang.org/grpc/encoding"
	protocodec "google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
)

// codec lets a request that cannot be decoded (text that is no UTF-8, cut bytes)
// reach the server's own code, which refuses it as the caller's fault. gRPC by
// itself answers INTERNAL, before anything can change that. The mark is an unknown
// field in an otherwise empty message.
type codec struct{ encoding.CodecV2 }

func newCodec() codec { return codec{encoding.GetCodecV2(protocodec.Name)} }

var undecodableMark = protowire.AppendString(protowire.AppendTag(nil, protowire.MaxValidNumber, protowire.BytesType), "giro: undecodable")

// Unmarshal marks what it cannot decode.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	err := c.CodecV2.Unmarshal(data, v)
	message, ok := v.(proto.Message)
	if err == nil || !ok {
		return err
	}
	proto.Reset(message)
	message.ProtoReflect().SetUnknown(undecodableMark)
	return nil
}

// undecodable gives the error for a message that was marked, or nil.
func undecodable(v any) error {
	if message, ok := v.(proto.Message); ok && bytes.Equal(message.ProtoReflect().GetUnknown(), undecodableMark) {
		return InvalidArgument([]Violation{{"request", "cannot be decoded: it must be the call's message, its text UTF-8"}})
	}
	return nil
}
