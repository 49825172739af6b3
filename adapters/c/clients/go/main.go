// A program that uses LevelDB's C API as Go's bindings do: the name of the library is in the
// source. It prints what it reads back.
package main

// #cgo LDFLAGS: -lleveldb
// #include <stdlib.h>
// #include "leveldb/c.h"
import "C"

import (
	"fmt"
	"os"
	"unsafe"
)

func check(message *C.char) {
	if message != nil {
		fmt.Fprintln(os.Stderr, C.GoString(message))
		os.Exit(1)
	}
}

func main() {
	options := C.leveldb_options_create()
	defer C.leveldb_options_destroy(options)
	C.leveldb_options_set_create_if_missing(options, 1)
	name := C.CString(os.Args[1])
	defer C.free(unsafe.Pointer(name))
	var message *C.char
	db := C.leveldb_open(options, name, &message)
	check(message)
	defer C.leveldb_close(db)

	write := C.leveldb_writeoptions_create()
	defer C.leveldb_writeoptions_destroy(write)
	key, value := []byte("apple"), []byte("red")
	C.leveldb_put(db, write, (*C.char)(unsafe.Pointer(&key[0])), C.size_t(len(key)),
		(*C.char)(unsafe.Pointer(&value[0])), C.size_t(len(value)), &message)
	check(message)

	read := C.leveldb_readoptions_create()
	defer C.leveldb_readoptions_destroy(read)
	iterator := C.leveldb_create_iterator(db, read)
	defer C.leveldb_iter_destroy(iterator)
	C.leveldb_iter_seek_to_first(iterator)
	for ; C.leveldb_iter_valid(iterator) != 0; C.leveldb_iter_next(iterator) {
		var keyLen, valueLen C.size_t
		key := C.leveldb_iter_key(iterator, &keyLen)
		value := C.leveldb_iter_value(iterator, &valueLen)
		fmt.Println(C.GoStringN(key, C.int(keyLen)), C.GoStringN(value, C.int(valueLen)))
	}
	C.leveldb_iter_get_error(iterator, &message)
	check(message)
}
