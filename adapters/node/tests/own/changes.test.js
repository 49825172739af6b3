'use strict'

const assert = require('assert')
const crypto = require('crypto')
const fs = require('fs')
const path = require('path')
const test = require('node:test')
const { promisify } = require('util')
const { MinikvLevel } = require('../..')
const { place, open, fill } = require('./support')

async function listOf (changes) {
  const list = []
  for await (const change of changes) list.push(change)
  return list
}

test('changes are the batches after a sequence number, in order', async (t) => {
  const db = await open(t)
  await db.put('before', '1')
  const changes = db.changes()
  assert.strictEqual(changes.sequence, db.sequence)
  assert.deepStrictEqual(await listOf(changes), [])
  await db.batch([{ type: 'put', key: 'a', value: '1' }, { type: 'del', key: 'before' }])
  await db.put('b', '2')
  const sessions = db.keyspace('sessions', { expiring: true })
  await sessions.put('s', '3', { expires: 5000 })
  const expected = [{
    sequence: 2,
    operations: [{ type: 'put', key: 'a', value: '1' }, { type: 'del', key: 'before' }]
  }, {
    sequence: 4,
    operations: [{ type: 'put', key: 'b', value: '2' }]
  }, {
    sequence: 5,
    operations: [{
      type: 'put',
      keyspace: { name: 'sessions', expiring: true },
      key: 's',
      value: '3',
      expires: new Date(5000)
    }]
  }]
  assert.deepStrictEqual(await listOf(changes), expected)
  assert.strictEqual(changes.sequence, 5)
  assert.deepStrictEqual(await listOf(db.changes(1)), expected)
  assert.deepStrictEqual(await listOf(db.changes(3)), expected.slice(1))
  const bytes = db.changes(3, { keyEncoding: 'buffer', valueEncoding: 'view' })
  const { operations: [{ key, value }] } = await bytes.next()
  assert(Buffer.isBuffer(key) && value instanceof Uint8Array)
})

test('an iteration that was left continues where it was', async (t) => {
  const db = await open(t)
  const changes = db.changes(0)
  for (let n = 1; n <= 10; n++) await db.put('key', String(n))
  for await (const { sequence } of changes) {
    if (sequence === 4) break
  }
  assert.strictEqual(changes.sequence, 4)
  assert.strictEqual((await changes.next()).sequence, 5)
  await db.put('key', '11')
  assert.deepStrictEqual((await listOf(changes)).map(({ sequence }) => sequence),
    [6, 7, 8, 9, 10, 11])
  assert.strictEqual(await changes.next(), undefined)
  // A batch that cannot be decoded is not lost.
  const wrong = db.changes(10, { valueEncoding: 'json' })
  await db.put('key', 'no json')
  assert.strictEqual((await wrong.next()).operations[0].value, 11)
  await assert.rejects(wrong.next(), { code: 'LEVEL_DECODE_ERROR' })
  await assert.rejects(wrong.next(), { code: 'LEVEL_DECODE_ERROR' })
  assert.strictEqual(wrong.sequence, 11)
})

test('a reader gets the changes of a writer', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  const reader = await open(t, { readOnly: true }, db.location)
  const changes = reader.changes(0)
  await db.put('b', '2')
  assert.deepStrictEqual((await listOf(changes)).map(({ sequence }) => sequence), [1, 2])
})

test('changes that are in no log any more are an error, and logs can be kept', async (t) => {
  const small = { writeBufferSize: 64 << 10 }
  const without = await open(t, small)
  const bytes = await open(t, { ...small, keepLogsBytes: 64 << 20 })
  const time = await open(t, { ...small, keepLogsFor: 3_600_000 })
  for (const db of [without, bytes, time]) {
    await db.put('first', '1')
    for (let round = 0; round < 10; round++) await fill(db, 2000)
    await db.compactRange('a', 'z')
  }
  const lost = { code: 'LEVEL_CHANGES_LOST', message: /in no log any more/ }
  const changes = without.changes(0)
  await assert.rejects(listOf(changes), lost)
  for (const db of [bytes, time]) {
    const batches = await listOf(db.changes(0))
    const count = batches.reduce((sum, { operations }) => sum + operations.length, 0)
    assert.strictEqual(count, 20_001)
    assert.strictEqual(db.sequence, 20_001)
  }
})

test('changes close, and with their database', async (t) => {
  const db = await open(t)
  await db.put('a', '1')
  const [closed, left] = [db.changes(0), db.changes(0)]
  await closed.close()
  await closed.close()
  await assert.rejects(closed.next(), { code: 'LEVEL_CHANGES_NOT_OPEN' })
  await db.close()
  await assert.rejects(left.next(), { code: 'LEVEL_CHANGES_NOT_OPEN' })
  assert.throws(() => db.changes(0), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  assert.throws(() => db.sequence, { code: 'LEVEL_DATABASE_NOT_OPEN' })
  for (const since of [-1, 1.5, '1', null]) assert.throws(() => db.changes(since))
})

test('a close waits for a next() under way', async (t) => {
  const closes = { database: (db) => db.close(), changes: (_, changes) => changes.close() }
  for (const [name, close] of Object.entries(closes)) {
    const db = await open(t)
    await db.put('a', '1')
    const changes = db.changes(0)
    // All threads of libuv are occupied, so the read has not begun.
    const hash = promisify(crypto.pbkdf2)
    const busy = Array.from({ length: 4 }, () => hash('a', 'b', 300_000, 64, 'sha512'))
    const nexts = [changes.next(), changes.next()]
    const closed = close(db, changes)
    assert.strictEqual((await nexts[0]).sequence, 1, name)
    assert.strictEqual(await nexts[1], undefined, name)
    await closed
    await assert.rejects(changes.next(), { code: 'LEVEL_CHANGES_NOT_OPEN' })
    await Promise.all(busy)
  }
})

test('backups are made, listed, verified, restored and removed', async (t) => {
  const db = await open(t)
  const folder = db.location + '-backups'
  const restored = db.location + '-restored'
  await db.put('a', '1')
  const first = await db.backup(folder)
  assert.strictEqual(first.number, 1)
  await db.put('a', '2')
  assert.strictEqual((await db.backup(folder)).number, 2)
  const numbers = async () => (await MinikvLevel.backups(folder)).map(({ number }) => number)
  assert.deepStrictEqual(await numbers(), [1, 2])
  assert.deepStrictEqual((await MinikvLevel.backups(folder))[0], first)
  assert.deepStrictEqual(await MinikvLevel.verifyBackups(folder), [])

  assert.deepStrictEqual(await MinikvLevel.restore(folder, restored, { number: 1 }), first)
  const old = await open(t, { createIfMissing: false }, restored)
  assert.strictEqual(await old.get('a'), '1')
  await old.close()
  await assert.rejects(MinikvLevel.restore(folder, restored), /^Error: Invalid argument: .*exists/)
  const missing = { code: 'LEVEL_INVALID_ARGUMENT', message: /no backup 7/ }
  await assert.rejects(MinikvLevel.restore(folder, restored + '2', { number: 7 }), missing)
  await MinikvLevel.restore(folder, restored + '2')
  const latest = await open(t, { createIfMissing: false }, restored + '2')
  assert.strictEqual(await latest.get('a'), '2')

  await db.backup(folder, { keep: 2 })
  assert.deepStrictEqual(await numbers(), [2, 3])
  const log = fs.readdirSync(path.join(folder, '000003')).find((name) => name.endsWith('.log'))
  fs.appendFileSync(path.join(folder, '000003', log), 'x')
  const [fault] = await MinikvLevel.verifyBackups(folder)
  assert(fault.file.endsWith(log))
  await assert.rejects(MinikvLevel.restore(folder, restored + '3'), { code: 'LEVEL_CORRUPTION' })
  assert(!fs.existsSync(restored + '3'))
})

test('wrong folders of backups', async (t) => {
  const db = await open(t)
  const invalid = { code: 'LEVEL_INVALID_ARGUMENT' }
  await assert.rejects(db.backup(db.location), invalid)
  await assert.rejects(MinikvLevel.backups(db.location), invalid)
  await assert.rejects(MinikvLevel.verifyBackups(db.location), invalid)
  await assert.rejects(MinikvLevel.restore(db.location, place(t)), invalid)
  for (const folder of ['', null, undefined, 7]) {
    const text = /'folder' must be a non-empty string/
    await assert.rejects(db.backup(folder), text)
    for (const call of [MinikvLevel.backups, MinikvLevel.verifyBackups, MinikvLevel.restore]) {
      await assert.rejects(call(folder, 'db'), text)
    }
  }
  await assert.rejects(MinikvLevel.restore('folder', ''), /'location' must be a non-empty string/)
  await db.close()
  await assert.rejects(db.backup(place(t)), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await db.open({ readOnly: true })
  await assert.rejects(db.backup(place(t)), { code: 'LEVEL_READONLY' })
})
