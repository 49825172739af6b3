// goleveldb on a directory, for tests/killed and tests/follow.
//
//	goleveldb dump DIR default|strict         prints every key and value, in hex
//	goleveldb write DIR default|strict ACKS PREFIX COUNT
//	goleveldb cycle DIR default|strict ACKS FIRST COUNT
//	goleveldb create DIR default|strict ACKS FIRST COUNT
//
// write puts COUNT entries, synced, notes in the file ACKS how many are done, and closes. cycle
// puts COUNT numbers, starting at FIRST, under 500 keys in turn, unsynced and with a small write
// buffer, so that logs and tables come and go; ACKS has the last number. create does the same to a
// new database. The error of a failed open goes to standard output, after "refused: ".
package main

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"

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
	cycles := os.Args[1] == "cycle" || os.Args[1] == "create"
	options.ErrorIfMissing = os.Args[1] != "create"
	if cycles {
		options.WriteBuffer = 64 << 10
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
		first := 1
		if cycles {
			first, err = strconv.Atoi(os.Args[5])
			check(err)
		}
		for i := first; i < first+count; i++ {
			key := fmt.Sprintf("%s%08d", os.Args[5], i)
			value := "value of " + key
			if cycles {
				key = fmt.Sprintf("%04d", i%500)
				value = fmt.Sprintf("%d:%s", i, strings.Repeat("v", i%900))
			}
			sync := os.Args[1] == "write"
			check(db.Put([]byte(key), []byte(value), &opt.WriteOptions{Sync: sync}))
			var done [8]byte
			binary.LittleEndian.PutUint64(done[:], uint64(i))
			_, err = acks.WriteAt(done[:], 0)
			check(err)
		}
	}
	check(db.Close())
}
