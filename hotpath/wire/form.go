package wire

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"spendgate/audit/spend"
)

// Append appends v as JSON, by the tags of its type. textAmounts has the members named amount as strings, as
// Prefer: amounts=string asks.
func Append[T any](dst []byte, v *T, textAmounts bool) []byte {
	t := reflect.TypeFor[T]()
	write, known := writers.Load(t)
	if !known {
		write, _ = writers.LoadOrStore(t, writerOf(t))
	}
	return Form[T]{write.(writer)}.Append(dst, v, textAmounts)
}

// writers are those of the types that were written before.
var writers sync.Map

// Form is what Append looks up, for structures that are written for every check.
type Form[T any] struct {
	write writer
}

// writer appends a value. text selects amounts as strings.
type writer func(dst []byte, v reflect.Value, text bool) []byte

// member is a member of an object.
type member struct {
	index     []int  // of the field
	name      string // with its quotes and colon
	nullable  bool   // null if it is zero
	omittable bool   // left out if it is zero
	write     writer
}

// NewForm reads the tags of T.
func NewForm[T any]() Form[T] { return Form[T]{writerOf(reflect.TypeFor[T]())} }

// Append is the function Append.
func (f Form[T]) Append(dst []byte, v *T, textAmounts bool) []byte {
	return f.write(dst, reflect.ValueOf(v).Elem(), textAmounts)
}

func writerOf(t reflect.Type) writer {
	switch t {
	case reflect.TypeFor[json.RawMessage]():
		return func(dst []byte, v reflect.Value, _ bool) []byte { return append(dst, v.Bytes()...) }
	case reflect.TypeFor[Number]():
		return func(dst []byte, v reflect.Value, _ bool) []byte { return append(dst, v.String()...) }
	case reflect.TypeFor[Timestamp]():
		return func(dst []byte, v reflect.Value, _ bool) []byte {
			return append(spend.AppendTime(append(dst, '"'), v.Addr().Interface().(*Timestamp).Time), '"')
		}
	case reflect.TypeFor[ID]():
		return func(dst []byte, v reflect.Value, _ bool) []byte {
			id := v.Addr().Interface().(*ID)
			return append(id.Append(append(dst, '"'), id.Prefix), '"')
		}
	case reflect.TypeFor[Decision]():
		return func(dst []byte, v reflect.Value, _ bool) []byte {
			return AppendString(dst, Decision(v.Uint()).String())
		}
	case reflect.TypeFor[spend.Amount](), reflect.TypeFor[spend.Total]():
		return func(dst []byte, v reflect.Value, _ bool) []byte {
			return v.Addr().Interface().(interface{ Append(dst []byte) []byte }).Append(dst)
		}
	}
	switch t.Kind() {
	case reflect.String:
		return func(dst []byte, v reflect.Value, _ bool) []byte { return AppendString(dst, v.String()) }
	case reflect.Bool:
		return func(dst []byte, v reflect.Value, _ bool) []byte { return strconv.AppendBool(dst, v.Bool()) }
	case reflect.Int, reflect.Int64:
		return func(dst []byte, v reflect.Value, _ bool) []byte { return strconv.AppendInt(dst, v.Int(), 10) }
	case reflect.Float64:
		return func(dst []byte, v reflect.Value, _ bool) []byte {
			return strconv.AppendFloat(dst, v.Float(), 'f', -1, 64)
		}
	case reflect.Pointer:
		return pointerWriter(writerOf(t.Elem()))
	case reflect.Slice:
		return sliceWriter(writerOf(t.Elem()))
	case reflect.Struct:
		return objectWriter(members(t, nil))
	default:
		panic("BUG: no structure of the interface has a " + t.String())
	}
}

func pointerWriter(element writer) writer {
	return func(dst []byte, v reflect.Value, text bool) []byte {
		if v.IsNil() {
			return append(dst, "null"...)
		}
		return element(dst, v.Elem(), text)
	}
}

func sliceWriter(element writer) writer {
	return func(dst []byte, v reflect.Value, text bool) []byte {
		dst = append(dst, '[')
		for i := range v.Len() {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = element(dst, v.Index(i), text)
		}
		return append(dst, ']')
	}
}

func objectWriter(members []member) writer {
	return func(dst []byte, v reflect.Value, text bool) []byte {
		dst = append(dst, '{')
		first := len(dst)
		for i := range members {
			m := &members[i]
			value := v.FieldByIndex(m.index)
			zero := (m.nullable || m.omittable) && value.IsZero()
			if zero && m.omittable {
				continue
			}
			if len(dst) > first {
				dst = append(dst, ',')
			}
			if dst = append(dst, m.name...); zero {
				dst = append(dst, "null"...)
			} else {
				dst = m.write(dst, value, text)
			}
		}
		return append(dst, '}')
	}
}

// members returns those of a structure and of the structures in it that have no name.
func members(t reflect.Type, at []int) []member {
	var all []member
	for i := range t.NumField() {
		f := t.Field(i)
		index := append(slices.Clip(at), i)
		if f.Anonymous {
			all = append(all, members(f.Type, index)...)
			continue
		}
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		m := member{
			index: index, name: `"` + name + `":`, nullable: f.Tag.Get("wire") == "null", omittable: options == "omitzero",
			write: writerOf(f.Type),
		}
		if name == "amount" {
			m.write = textable(m.write)
		}
		all = append(all, m)
	}
	return all
}

// textable writes an amount as a string where that is asked for.
func textable(amount writer) writer {
	return func(dst []byte, v reflect.Value, text bool) []byte {
		if !text {
			return amount(dst, v, text)
		}
		return append(amount(append(dst, '"'), v, text), '"')
	}
}
