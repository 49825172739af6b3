'use strict'

const { AbstractIterator, AbstractKeyIterator, AbstractValueIterator } = require('abstract-level')
const ModuleError = require('module-error')
const { FrameReader, scratch } = require('./frames')

// Maximum number of entries in the first read by next(). Many programs need only a few entries.
const FIRST_ENTRIES = 16

// Maximum number of entries in later reads by next(), and default size at which every read ends, in
// bytes.
const NEXT_ENTRIES = 1000
const HIGH_WATER_MARK_BYTES = 64 << 10

// Maximum number of entries in any read: the native module counts in 32 bits.
const MAX_ENTRIES = 0xffffffff

// Size at which a read by all() ends, in bytes, unless highWaterMarkBytes is larger.
const ALL_BYTES = 1 << 20

const nothing = new FrameReader(Buffer.alloc(0))

function aborted () {
  const error = new ModuleError('Operation has been aborted', { code: 'LEVEL_ABORTED' })
  error.name = 'AbortError'
  return error
}

// The entries of a native iterator, some of which were read ahead.
class Entries {
  #native
  #read = nothing
  #isEnd = false
  #isFirst = true
  #bytes
  #keyAsText
  #valueAsText
  #pick
  #signal
  #abort = null

  // `pick` reads an entry from a reader and returns what the iterator yields.
  constructor (native, options, pick) {
    this.#native = native
    this.#pick = pick
    this.#keyAsText = options.keyEncoding === 'utf8'
    this.#valueAsText = options.valueEncoding === 'utf8'
    this.#bytes = options.highWaterMarkBytes ?? HIGH_WATER_MARK_BYTES
    this.#signal = options.signal ?? null
    if (this.#signal !== null) {
      this.#abort = () => native.abort()
      this.#signal.addEventListener('abort', this.#abort, { once: true })
    }
  }

  // The number of entries that were read ahead.
  get cached () {
    return this.#read.countEntries()
  }

  // Returns the next entry or a promise of the entry; `undefined` at the end.
  next (limit) {
    if (!this.#read.isEmpty) return this.#take()
    if (this.#isEnd) return undefined
    const entries = this.#isFirst ? FIRST_ENTRIES : NEXT_ENTRIES
    return this.#fill(Math.min(entries, limit), this.#bytes).then(() => {
      return this.#read.isEmpty ? undefined : this.#take()
    })
  }

  // Returns a promise of at most the next `size` entries; an empty array at the end.
  async nextv (size) {
    if (this.#read.isEmpty && !this.#isEnd) await this.#fill(size, this.#bytes)
    return this.#takeMany(size, [])
  }

  // Returns a promise of all remaining entries, but at most `limit`.
  async all (limit) {
    const entries = this.#takeMany(limit, [])
    while (entries.length < limit && !this.#isEnd) {
      const size = limit - entries.length
      await this.#fill(size, Math.max(this.#bytes, ALL_BYTES))
      this.#takeMany(size, entries)
    }
    return entries
  }

  seek (target) {
    this.#native.seek(scratch.bare(target))
    this.#read = nothing
    this.#isEnd = false
    this.#isFirst = true
  }

  close () {
    if (this.#signal !== null) this.#signal.removeEventListener('abort', this.#abort)
    this.#read = nothing
    this.#native.close()
  }

  async #fill (entries, bytes) {
    this.#isFirst = false
    const read = await this.#native.read(Math.min(entries, MAX_ENTRIES), bytes)
    // The iterator was aborted after the read, but before the promise of the read was settled.
    if (this.#signal?.aborted) throw aborted()
    this.#read = new FrameReader(read)
    this.#isEnd = this.#read.number() === 1
  }

  #take () {
    const keyLength = this.#read.number()
    const valueLength = this.#read.number()
    return this.#pick(
      this.#read,
      keyLength,
      valueLength,
      this.#keyAsText,
      this.#valueAsText
    )
  }

  #takeMany (size, entries) {
    for (; size > 0 && !this.#read.isEmpty; size--) entries.push(this.#take())
    return entries
  }
}

// Adds the reading methods to one of abstract-level's classes. `pick` returns a function that reads
// an entry and returns what the iterator yields.
const reading = (Base, pick) => class extends Base {
  #entries

  constructor (db, native, options) {
    super(db, options)
    this.#entries = new Entries(native, options, pick(options))
  }

  get cached () {
    return this.#entries.cached
  }

  _next () {
    return this.#entries.next(this.limit - this.count)
  }

  _nextv (size) {
    return this.#entries.nextv(size)
  }

  _all () {
    return this.#entries.all(this.limit - this.count)
  }

  _seek (target) {
    this.#entries.seek(target)
  }

  async _close () {
    this.#entries.close()
  }
}

const pickKey = () => (reader, length, _, asText) => reader.data(length, asText)
const pickValue = () => (reader, _, length, __, asText) => reader.data(length, asText)

function pickEntry ({ keys, values }) {
  return (reader, keyLength, valueLength, keyAsText, valueAsText) => {
    const key = keys ? reader.data(keyLength, keyAsText) : undefined
    const value = values ? reader.data(valueLength, valueAsText) : undefined
    return [key, value]
  }
}

class Iterator extends reading(AbstractIterator, pickEntry) {}
class KeyIterator extends reading(AbstractKeyIterator, pickKey) {}
class ValueIterator extends reading(AbstractValueIterator, pickValue) {}

module.exports = { Entries, pickEntry, Iterator, KeyIterator, ValueIterator }
