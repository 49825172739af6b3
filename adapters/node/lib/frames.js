'use strict'

// Keys and entries in one piece of memory, which crosses to the native module and back at once.
// src/frames.rs describes the bytes.

const NONE = 0xffffffff

// A frame has at most two lengths.
const LENGTHS_BYTES = 8

// Maximum number of bytes of a UTF-16 unit in UTF-8.
const UNIT_BYTES = 3

// Longer strings are measured before room is made for them; shorter ones get room for the maximum.
const SHORT_UNITS = 1 << 16

const FIRST_BYTES = 2 << 10

// Maximum memory kept for the next call, in bytes.
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

  // Returns the frames, until the next change.
  bytes () {
    return this.#buffer.subarray(0, this.#length)
  }

  // Returns `key` without a length, until the next change. Discards the frames.
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

  put (key, value) {
    const keyLength = this.#entryKey(key)
    const start = this.#length
    this.#reserve(value, keyLength)
    const valueLength = this.#write(value, start + LENGTHS_BYTES + keyLength)
    this.#finish(keyLength, valueLength, valueLength)
  }

  del (key) {
    this.#finish(this.#entryKey(key), NONE, 0)
  }

  // Writes a key behind the room for two lengths, and returns its length.
  #entryKey (key) {
    this.#reserve(key, 0)
    return this.#write(key, this.#length + LENGTHS_BYTES)
  }

  #finish (keyLength, valueLength, valueBytes) {
    this.#buffer.writeUInt32LE(keyLength, this.#length)
    this.#buffer.writeUInt32LE(valueLength, this.#length + 4)
    this.#length += LENGTHS_BYTES + keyLength + valueBytes
  }

  // Makes room for two lengths and for `data`, behind a key that may be there already.
  #reserve (data, before) {
    const room = this.#length + LENGTHS_BYTES + before + bytesOf(data)
    if (room <= this.#buffer.length) return
    const larger = Buffer.allocUnsafe(Math.max(room, 2 * this.#buffer.length))
    this.#buffer.copy(larger)
    this.#buffer = larger
  }

  // Writes `data` at `start`, and returns its length in bytes.
  #write (data, start) {
    if (typeof data === 'string') return this.#buffer.utf8Write(data, start)
    this.#buffer.set(asBytes(data), start)
    return data.byteLength
  }
}

// Returns an upper bound of the number of bytes of `data`.
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

  // Returns `length` bytes, as text or as a Buffer of their own.
  data (length, asText) {
    const start = this.#at
    this.#at += length
    if (asText) return this.#bytes.utf8Slice(start, this.#at)
    return copy(this.#bytes, start, this.#at)
  }

  skip (length) {
    this.#at += length
  }
}

// Returns a Buffer of its own, so that a kept value does not keep everything that was read with it.
function copy (bytes, start, end) {
  const data = Buffer.allocUnsafe(end - start)
  bytes.copy(data, 0, start, end)
  return data
}

// Returns the values in frames; `undefined` for those that are absent.
function values (bytes, asText) {
  const reader = new FrameReader(bytes)
  const found = []
  while (!reader.isEmpty) {
    const length = reader.number()
    found.push(length === NONE ? undefined : reader.data(length, asText))
  }
  return found
}

// Frames on their way into the native module, which copies them at once.
const scratch = new Frames()

module.exports = { Frames, FrameReader, values, scratch }
