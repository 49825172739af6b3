'use strict'

const ModuleError = require('module-error')
const { decodeBytes } = require('./decode')
const { dateOf } = require('./expiry')
const { FrameReader, NONE } = require('./frames')

// Size of the batches that one read returns, in bytes.
const READ_BYTES = 64 << 10

// The first bytes of the keys of keyspaces; docs/keyspaces.md describes what follows.
const TAG = Buffer.from([0xff, 0xfe, 0x6b])
const ORDINARY = 0x73
const EXPIRING = 0x74

const EXPIRY_BYTES = 8

// The changes of a database after some sequence number, batch by batch.
class Changes {
  #db
  #native
  #read
  #keyEncoding
  #valueEncoding
  #batches = []
  #sequence
  #isOpen = true
  // Settled when the last call of next() has ended. The next one starts then.
  #last = Promise.resolve()

  // `during` lets the database wait for a call.
  constructor (db, native, sequence, during, options) {
    this.#db = db
    this.#native = native
    this.#read = () => during(native.read(READ_BYTES))
    this.#sequence = sequence
    this.#keyEncoding = db.keyEncoding(options?.keyEncoding)
    this.#valueEncoding = db.valueEncoding(options?.valueEncoding)
    db.attachResource(this)
  }

  // The sequence number of the last operation that was returned.
  get sequence () {
    return this.#sequence
  }

  // Returns a promise of the next batch; of `undefined`, if there is none for now.
  async next () {
    if (!this.#isOpen) {
      throw new ModuleError('Changes are not open', { code: 'LEVEL_CHANGES_NOT_OPEN' })
    }
    const next = this.#last.then(() => this.#next())
    this.#last = next.catch(() => {})
    return next
  }

  async #next () {
    if (this.#batches.length === 0) await this.#fill()
    const batch = this.#batches[0]
    if (batch === undefined) return undefined
    // If an operation cannot be decoded, the batch stays for the next call.
    const operations = batch.operations.map((operation) => this.#decoded(operation))
    this.#batches.shift()
    this.#sequence = batch.sequence + operations.length - 1
    return { sequence: batch.sequence, operations }
  }

  // Iterates over the batches there are so far. A later iteration continues where this one ends.
  async * [Symbol.asyncIterator] () {
    for (let batch; (batch = await this.next()) !== undefined;) yield batch
  }

  // Waits for the calls under way.
  async close () {
    this.#isOpen = false
    await this.#last
    this.#batches = []
    this.#native.close()
    this.#db.detachResource(this)
  }

  async #fill () {
    const reader = new FrameReader(await this.#read())
    while (!reader.isEmpty) {
      const sequence = reader.number() + reader.number() * 2 ** 32
      const operations = Array.from({ length: reader.number() }, () => readOperation(reader))
      this.#batches.push({ sequence, operations })
    }
  }

  #decoded (operation) {
    const key = decodeBytes(this.#keyEncoding, operation.key, 'key')
    if (operation.type === 'del') return { ...operation, key }
    return { ...operation, key, value: decodeBytes(this.#valueEncoding, operation.value, 'value') }
  }
}

function readOperation (reader) {
  const keyLength = reader.number()
  const valueLength = reader.number()
  const operation = splitKey(reader.data(keyLength, false))
  if (valueLength === NONE) return { type: 'del', ...operation }
  const value = reader.data(valueLength, false)
  if (!operation.keyspace?.expiring || valueLength < EXPIRY_BYTES) {
    return { type: 'put', ...operation, value }
  }
  const end = valueLength - EXPIRY_BYTES
  const expires = dateOf(value.readBigUInt64LE(end))
  return { type: 'put', ...operation, value: value.subarray(0, end), expires }
}

// Splits the key of an entry into its keyspace, if there is one, and the key within the keyspace.
function splitKey (key) {
  const kind = key[TAG.length]
  const length = key[TAG.length + 1]
  const start = TAG.length + 2
  const isTagged = key.subarray(0, TAG.length).equals(TAG) && [ORDINARY, EXPIRING].includes(kind)
  if (!isTagged || !(length > 0) || key.length < start + length) return { key }
  const name = nameOf(key.subarray(start, start + length))
  const keyspace = { name, expiring: kind === EXPIRING }
  return { keyspace, key: key.subarray(start + length) }
}

// Returns the name of a keyspace as text if it is text, and otherwise as a Buffer.
function nameOf (bytes) {
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? text : Buffer.from(bytes)
}

module.exports = { Changes, nameOf }
