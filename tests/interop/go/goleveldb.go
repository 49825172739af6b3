// goleveldb on a directory, for tests/killed.
//
//	goleveldb dump DIR default|strict         prints every key and value, in hex
//	goleveldb write DIR default|strict ACKS PREFIX COUNT
//
// write puts COUNT entries, synced, notes in the file ACKS how many are done, and closes. What the
// library answers to a failed open goes to standard output, after "refused: ".
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"

	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/filter"
	"github.com/syndtr/goleveldb/leveldb/opt"
)

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func main() {
	dir := os.Args[2]
	options := &opt.Options{ErrorIfMissing: true, Filter: filter.NewBloomFilter(10)}
	if os.Args[3] == "strict" {
		options.Strict = opt.StrictAll
	}
	db, err := leveldb.OpenFile(dir, options)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	if os.Args[1] == "dump" {
		out := bufio.NewWriter(os.Stdout)
		it := db.NewIterator(nil, nil)
		for it.Next() {
			fmt.Fprintln(out, hex.EncodeToString(it.Key()), hex.EncodeToString(it.Value()))
		}
		check(it.Error())
		check(out.Flush())
	} else {
		acks, err := os.OpenFile(os.Args[4], os.O_WRONLY|os.O_CREATE, 0o600)
		check(err)
		count, err := strconv.Atoi(os.Args[6])
		check(err)
		for i := 1; i <= count; i++ {
			key := fmt.Sprintf("%s%08d", os.Args[5], i)
			check(db.Put([]byte(key), []byte("value of "+key), &opt.WriteOptions{Sync: true}))
			var done [8]byte
			binary.LittleEndian.PutUint64(done[:], uint64(i))
			_, err = acks.WriteAt(done[:], 0)
			check(err)
		}
	}
	check(db.Close())
}
