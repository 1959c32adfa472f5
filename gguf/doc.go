// Package gguf reads, writes and edits GGUF files: an ordered list of typed metadata values followed by
// aligned tensor data. It knows the container and the storage sizes of every tensor type; what the bytes
// of a block mean is the business of package quantize/block.
//
// # Reading
//
// Open maps a file, reads its header and refuses it at the first fatal fault; every count, size and offset of an open
// file is then known to lie inside the file. Check does the same, but returns all that could be read, and every defect with its
// place, so that a report on a damaged file can be made. ReadHeader works on any Source: bytes in memory, or a remote file that
// hands out ranges. Versions 1 to 3 are read in both byte orders. Tensor data and long arrays are views of the
// mapping: they cost nothing until they are used, and must not be used after Close. OpenModel opens a split model by its first part,
// as one file.
//
//	f, err := gguf.Open("model.gguf")
//	arch, err := f.Meta.Str("general.architecture")        // an error names file, key and offset
//	heads, err := f.Meta.LayerUints(arch+".attention.head_count_kv", layers)
//	data, err := f.Data(&f.Tensors[0])                      // no copy
//
// For tables and JSON: Meta.All yields keys and values in file order, Value.TypeName names a type ("u32", "[]str"),
// Value.Any gives a plain Go value, Array.All decodes a long array element by element, Type.String names a tensor type.
//
// # Writing
//
// Layout computes offsets and the exact size of a file beforehand, Writer writes it front to back, File.WriteTo copies an open
// file: unedited, it comes out byte for byte. Files are written as version 3, little-endian.
//
// # Editing
//
// Edit changes metadata under a crash-safe journal, in place where the new header fits. ParseValueType and ParseValue read
// types and values as the command line has them.
//
//	_, err := gguf.Edit("model.gguf", "", func(m *gguf.Meta) error {
//		m.Set("llama.rope.freq_base", gguf.New(float32(1e6)))
//		return nil
//	})
//
// # Errors
//
// Errors about a file, key or tensor are of type *Error: errors.As finds the path, the place, the offset and the hint, errors.Is
// the sentinel (ErrTruncated, ErrNoKey ...).
package gguf
