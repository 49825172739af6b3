'use strict'

const assert = require('assert')
const fs = require('fs')
const os = require('os')
const path = require('path')
const test = require('node:test')
const binding = require('../../lib/binding')
const { place } = require('./support')

// Arguments that the JavaScript side never passes.
const WRONG = [
  [], [undefined], [null, null, null], [1, 2, 3], ['text', 'text', 'text'], [{}, {}, {}, {}],
  [Buffer.from([1]), 0], [Buffer.from([5, 0, 0, 0, 1]), 511], [Buffer.alloc(3), -1, Symbol('s')],
  [Buffer.alloc(12, 0xff), 511, 0], [Buffer.alloc(0), 511, {}], [new Uint16Array(3), NaN],
  [Buffer.alloc(9), 1e300, new Date()], [Object.create(null), () => {}]
]

// Calls every method of `native` with wrong arguments. Each call must return, throw or reject.
async function misuse (native) {
  let failures = 0
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(native))) {
    if (['constructor', 'open', 'close'].includes(name)) continue
    for (const wrong of WRONG) {
      try {
        await native[name](...wrong)
      } catch (error) {
        assert(error instanceof Error, name)
        failures++
      }
    }
    assert.throws(() => native[name].call({}), Error, name)
  }
  return failures
}

test('wrong arguments of the native module are errors', async (t) => {
  // Some calls use the arguments as paths, so the test works in a new directory.
  process.chdir(fs.mkdtempSync(path.join(os.tmpdir(), 'minikv-')))
  const database = new binding.NativeDatabase()
  const before = await misuse(database)
  assert(before > 100)
  await assert.rejects(async () => database.open(place(t), {}), /createIfMissing/)
  await assert.rejects(async () => database.open(1, {}))
  const options = require('../../lib/options').openOptions({})
  await database.open(place(t), options)
  assert(await misuse(database) > 50)
  const key = Buffer.from([1, 0, 0, 0, 0x61])
  const value = Buffer.from([1, 0, 0, 0, 1, 0, 0, 0, 0x61, 0x62])
  await database.write(value, false)

  const snapshot = database.snapshot()
  const iterator = database.iterator(Buffer.alloc(0), binding.KEYS, snapshot)
  await misuse(iterator)
  snapshot.close()
  snapshot.close()
  assert.throws(() => database.iterator(key, 0, snapshot), { code: 'LEVEL_SNAPSHOT_NOT_OPEN' })
  iterator.abort()
  await assert.rejects(iterator.read(1, 1), { code: 'LEVEL_ABORTED', name: 'AbortError' })
  iterator.close()
  iterator.close()
  await assert.rejects(iterator.read(1, 1), /closed/)

  const transaction = binding.beginTransaction(database)
  await misuse(transaction)
  transaction.close()
  await assert.rejects(transaction.commit(false), { code: 'LEVEL_TRANSACTION_NOT_OPEN' })
  // An expiry is missing at the end of the value.
  const expiring = database.keyspace(Buffer.from('e'), true)
  await assert.rejects(async () => expiring.write(value, false), /frame/)
  await misuse(expiring)
  const changes = database.changes(0)
  await misuse(changes)
  changes.close()
  await assert.rejects(changes.read(1), /closed/)

  // The existing entry is unchanged.
  assert.deepStrictEqual(await database.getMany(key, 0), Buffer.from([1, 0, 0, 0, 0x62]))
  await database.close()
  await database.close()
  await misuse(database)
  const notOpen = { code: 'LEVEL_DATABASE_NOT_OPEN' }
  await assert.rejects(async () => database.write(value, false), notOpen)
})
