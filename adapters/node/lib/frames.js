'use strict'

// Frames: keys or entries, with their lengths, in one buffer that is passed to or from the native
// module in one step. src/frames.rs describes the bytes.

const NONE = 0xffffffff

// A frame has at most two lengths.
const LENGTHS_BYTES = 8

// Size of the expiry after a value of an expiring keyspace.
const EXPIRY_BYTES = 8

// Maximum number of bytes of a UTF-16 unit in UTF-8.
const UNIT_BYTES = 3

// Maximum length of strings for which room is made without measuring them in UTF-8: they get room
// for `UNIT_BYTES` bytes per unit.
const SHORT_UNITS = 1 << 16

const FIRST_BYTES = 2 << 10

// Maximum size of a buffer that is kept for the next call, in bytes.
const KEPT_BYTES = 1 << 20

// Frames that are written one after the other.
class Frames {
  #buffer
  #length = 0

  constructor () {
    this.#buffer = Buffer.allocUnsafe(FIRST_BYTES)
  }

  get length () {
    return this.#length
  }

  // Discards everything after the first `length` bytes.
  truncate (length) {
    this.#length = length
    if (length === 0 && this.#buffer.length > KEPT_BYTES) {
      this.#buffer = Buffer.allocUnsafe(FIRST_BYTES)
    }
  }

  // Returns the frames. The result is valid until the next change.
  bytes () {
    return this.#buffer.subarray(0, this.#length)
  }

  // Returns the bytes of `key`, without a length. The result is valid until the next change.
  // Discards the frames if `key` is a string.
  bare (key) {
    if (typeof key !== 'string') return asBytes(key)
    this.truncate(0)
    this.#reserve(key, 0)
    return this.#buffer.subarray(0, this.#write(key, 0))
  }

  key (key) {
    const start = this.#length
    this.#reserve(key, 0)
    const length = this.#write(key, start + 4)
    this.#buffer.writeUInt32LE(length, start)
    this.#length = start + 4 + length
  }

  // `expiry`, a bigint, is written after values of expiring keyspaces.
  put (key, value, expiry) {
    const keyLength = this.#entryKey(key)
    const start = this.#length + LENGTHS_BYTES + keyLength
    this.#reserve(value, keyLength)
    let valueLength = this.#write(value, start)
    if (expiry !== undefined) {
      this.#buffer.writeBigUInt64LE(expiry, start + valueLength)
      valueLength += EXPIRY_BYTES
    }
    this.#finish(keyLength, valueLength, valueLength)
  }

  del (key) {
    this.#finish(this.#entryKey(key), NONE, 0)
  }

  // Writes a key after the room for two lengths, and returns the length of the key.
  #entryKey (key) {
    this.#reserve(key, 0)
    return this.#write(key, this.#length + LENGTHS_BYTES)
  }

  #finish (keyLength, valueLength, valueBytes) {
    this.#buffer.writeUInt32LE(keyLength, this.#length)
    this.#buffer.writeUInt32LE(valueLength, this.#length + 4)
    this.#length += LENGTHS_BYTES + keyLength + valueBytes
  }

  // Makes room for two lengths, `data` and an expiry, and for `before` bytes of a key that may
  // already be there.
  #reserve (data, before) {
    const room = this.#length + LENGTHS_BYTES + before + bytesOf(data) + EXPIRY_BYTES
    if (room <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(room, 2 * this.#buffer.length))
    this.#buffer.copy(larger)
    this.#buffer = larger
  }

  // Writes `data` at `start`, and returns the length of `data` in bytes.
  #write (data, start) {
    if (typeof data === 'string') return this.#buffer.utf8Write(data, start)
    this.#buffer.set(asBytes(data), start)
    return data.byteLength
  }
}

// Returns an upper bound for the size of `data` in bytes.
function bytesOf (data) {
  if (typeof data === 'string') {
    return data.length <= SHORT_UNITS ? data.length * UNIT_BYTES : Buffer.byteLength(data)
  }
  if (ArrayBuffer.isView(data)) return data.byteLength
  throw new TypeError('A key or value must be encoded as a string or a view of bytes')
}

// Returns the bytes of a view.
function asBytes (view) {
  if (view instanceof Uint8Array) return view
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength)
}

// Frames that are read from the front.
class FrameReader {
  #bytes
  #at = 0

  constructor (bytes) {
    this.#bytes = bytes
  }

  get isEmpty () {
    return this.#at >= this.#bytes.length
  }

  number () {
    const number = this.#bytes.readUInt32LE(this.#at)
    this.#at += 4
    return number
  }

  // Returns the next `length` bytes, as text or as a new Buffer.
  data (length, asText) {
    const start = this.#at
    this.#at += length
    if (asText) return this.#bytes.utf8Slice(start, this.#at)
    return copy(this.#bytes, start, this.#at)
  }

  // Returns the number of entries, each with two lengths, that have not been read.
  countEntries () {
    let count = 0
    for (let at = this.#at; at < this.#bytes.length; count++) {
      at += LENGTHS_BYTES + this.#bytes.readUInt32LE(at) + this.#bytes.readUInt32LE(at + 4)
    }
    return count
  }
}

// Returns a copy, so that a value that a program keeps does not keep all bytes of the read in
// memory.
function copy (bytes, start, end) {
  const data = Buffer.allocUnsafe(end - start)
  bytes.copy(data, 0, start, end)
  return data
}

// Returns the values in frames, with `undefined` for each absent value.
function values (bytes, asText) {
  const reader = new FrameReader(bytes)
  const found = []
  while (!reader.isEmpty) {
    const length = reader.number()
    found.push(length === NONE ? undefined : reader.data(length, asText))
  }
  return found
}

// Frames for calls of the native module, which copies them before the call returns.
const scratch = new Frames()

module.exports = { Frames, FrameReader, NONE, values, scratch }
