'use strict'

const assert = require('assert')
const test = require('node:test')
const { place, open, fill, damaged } = require('./support')
const { MinikvLevel } = require('../..')

const ENDED = { code: 'LEVEL_TRANSACTION_NOT_OPEN' }

async function entriesOf (iterator) {
  const entries = []
  for await (const entry of iterator) entries.push(entry)
  return entries
}

test('a transaction sees its moment and its own writes, and others see neither', async (t) => {
  const db = await open(t, { valueEncoding: 'json' })
  await db.batch(['a', 'b', 'c'].map((key) => ({ type: 'put', key, value: key.length })))
  const [transaction, reader] = [db.transaction(), db.transaction()]
  transaction.put('b', { own: true })
  transaction.del('c')
  transaction.put('d', 4)
  await db.put('z', 'later')
  assert.deepStrictEqual(await transaction.get('b'), { own: true })
  assert.deepStrictEqual(await transaction.getMany(['a', 'c', 'd']), [1, undefined, 4])
  assert.strictEqual(await reader.get('z'), undefined)
  assert.strictEqual(await transaction.has('c'), false)
  assert.strictEqual(await transaction.has('d'), true)
  assert.strictEqual(await db.get('d'), undefined)
  await transaction.commit({ sync: true })
  assert.strictEqual(await db.get('d'), 4)
  assert.strictEqual(await db.has('c'), false)
  assert.strictEqual(await reader.get('d'), undefined)
  await reader.commit()
})

test('iterators of transactions', async (t) => {
  const db = await open(t)
  await fill(db, 100)
  const transaction = db.transaction()
  transaction.del('key-00001')
  transaction.put('key-00002', 'own')
  transaction.put('key-00002b', 'new')
  const all = await db.iterator().all()
  all.splice(1, 2, ['key-00002', 'own'], ['key-00002b', 'new'])
  assert.deepStrictEqual(await entriesOf(transaction.iterator()), all)
  const back = [...all].reverse()
  assert.deepStrictEqual(await entriesOf(transaction.iterator({ reverse: true })), back)
  const some = transaction.iterator({ gt: 'key-00002', lte: 'key-00090', limit: 20 })
  assert.deepStrictEqual(await entriesOf(some), all.slice(2, 22))
  const last = transaction.iterator({ gte: 'key-00050', lt: 'key-00090', reverse: true, limit: 2 })
  const keys = (await entriesOf(last)).map(([key]) => key)
  assert.deepStrictEqual(keys, ['key-00089', 'key-00088'])
  const bytes = transaction.iterator({ limit: 1, keyEncoding: 'buffer', valueEncoding: 'view' })
  const [[key, value]] = await entriesOf(bytes)
  assert(Buffer.isBuffer(key) && value instanceof Uint8Array)
  for await (const _ of transaction.iterator()) break
  assert.throws(() => transaction.iterator({ limit: 1.5 }), /'limit' must be an integer/)
  assert.deepStrictEqual(await entriesOf(transaction.iterator({ limit: 0 })), [])
  await transaction.close()
})

test('a commit fails if something it has read was changed, and only then', async (t) => {
  const db = await open(t)
  await db.put('read', '1')
  await db.put('not read', '1')
  const conflict = { code: 'LEVEL_CONFLICT', message: /^Conflict: .*"read"/ }
  for (const read of [
    (transaction) => transaction.get('read'),
    (transaction) => transaction.has('read'),
    (transaction) => transaction.getMany(['x', 'read']),
    (transaction) => entriesOf(transaction.iterator({ gte: 'r' }))
  ]) {
    const [first, second, third] = [db.transaction(), db.transaction(), db.transaction()]
    for (const transaction of [first, second, third]) await read(transaction)
    for (const transaction of [first, second]) transaction.put('read', 'new')
    await db.put('not read', '2')
    await first.commit()
    await assert.rejects(second.commit(), conflict)
    assert(second.hasConflict && !first.hasConflict)
    await third.commit()
  }
  const phantom = db.transaction()
  await entriesOf(phantom.iterator({ gte: 'p', lt: 'q' }))
  phantom.put('out', '1')
  await db.put('p', '1')
  await assert.rejects(phantom.commit(), { code: 'LEVEL_CONFLICT', message: /"p"/ })
  assert.strictEqual(await db.get('out'), undefined)
})

test('transact runs again after a conflict, and counts to the sum', async (t) => {
  const db = await open(t)
  let runs = 0
  const add = () => db.transact(async (transaction) => {
    runs++
    const count = Number(await transaction.get('count') ?? 0)
    transaction.put('count', String(count + 1))
    return count
  })
  const counts = await Promise.all(Array.from({ length: 30 }, add))
  assert.strictEqual(await db.get('count'), '30')
  assert.deepStrictEqual(counts.sort((a, b) => a - b), Array.from({ length: 30 }, (_, n) => n))
  assert(runs > 30)

  runs = 0
  const mine = new Error('mine')
  await assert.rejects(db.transact(async (transaction) => {
    runs++
    transaction.put('count', 'wrong')
    throw mine
  }), (error) => error === mine)
  // A conflict of something else within is not this transaction's.
  await assert.rejects(db.transact(() => {
    runs++
    throw Object.assign(new Error('another'), { code: 'LEVEL_CONFLICT' })
  }), /another/)
  assert.strictEqual(runs, 2)
  assert.strictEqual(await db.get('count'), '30')
  await assert.rejects(db.transact('text'), /'body' must be a function/)
  await assert.rejects(db.transact(() => {}, { sync: 1 }), /'sync' must be a boolean/)
})

test('transactions write to keyspaces', async (t) => {
  const db = await open(t)
  const users = db.keyspace('users', { valueEncoding: 'json' })
  const sessions = db.keyspace('sessions', { expiring: true })
  const transaction = db.transaction()
  transaction.put('ann', { age: 7 }, { keyspace: users })
  transaction.put('ann', 'outside')
  transaction.put('s1', 'ann', { keyspace: sessions, ttl: 1e7 })
  transaction.put('s2', 'bob', { keyspace: sessions, expires: 5 })
  transaction.del('nobody', { keyspace: users })
  assert.deepStrictEqual(await transaction.get('ann', { keyspace: users }), { age: 7 })
  assert.strictEqual(await transaction.get('ann'), 'outside')
  const listed = await entriesOf(transaction.iterator({ keyspace: users }))
  assert.deepStrictEqual(listed, [['ann', { age: 7 }]])
  assert.deepStrictEqual(await entriesOf(transaction.iterator({ keyspace: sessions })),
    [['s1', 'ann']])
  assert.throws(() => transaction.put('a', 'b', { ttl: 1 }), { code: 'LEVEL_NOT_SUPPORTED' })
  await transaction.commit()
  assert.deepStrictEqual(await users.get('ann'), { age: 7 })
  assert.deepStrictEqual(await sessions.iterator().all(), [['s1', 'ann']])

  const other = await open(t)
  const late = db.transaction()
  const foreign = { keyspace: other.keyspace('users') }
  assert.throws(() => late.put('a', 'b', foreign), /keyspace of the transaction's database/)
  const sublevel = { keyspace: db.sublevel('users') }
  assert.throws(() => late.put('a', 'b', sublevel), /keyspace of the transaction's database/)
  await assert.rejects(late.get('a', sublevel), /keyspace of the transaction's database/)
  await users.put('ann', { age: 8 })
  await late.close()
})

test('a database closes and opens after a commit that failed', async (t) => {
  const db = await open(t)
  await db.keyspace('users').put('ann', '1')
  const transaction = db.transaction()
  transaction.put('ann', '2', { keyspace: db.keyspace('users', { expiring: true }) })
  await assert.rejects(transaction.commit(), { code: 'LEVEL_INVALID_ARGUMENT' })
  await db.close()
  await db.open()
  assert.strictEqual(await db.keyspace('users').get('ann'), '1')
  assert.throws(() => transaction.put('ann', '3'), ENDED)
})

test('a transaction ends once, and with its database', async (t) => {
  const db = await open(t)
  const committed = db.transaction()
  committed.put('a', '1')
  await committed.commit()
  const closed = db.transaction()
  closed.put('a', '2')
  await closed.close()
  await closed.close()
  const left = db.transaction()
  left.put('b', '1')
  const walk = left.iterator()
  await walk.next()
  await db.close()
  for (const transaction of [committed, closed, left]) {
    assert.throws(() => transaction.put('a', '3'), ENDED)
    assert.throws(() => transaction.del('a'), ENDED)
    assert.throws(() => transaction.iterator(), ENDED)
    await assert.rejects(transaction.get('a'), ENDED)
    await assert.rejects(transaction.commit(), ENDED)
    await transaction.close()
  }
  assert.throws(() => db.transaction(), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await assert.rejects(db.transact(() => {}), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await db.open({ readOnly: true })
  assert.throws(() => db.transaction(), { code: 'LEVEL_READONLY' })
  assert.deepStrictEqual(await db.iterator().all(), [['a', '1']])
})

test('calls of a transaction take effect in their order', async (t) => {
  const db = new MinikvLevel(place(t))
  // Waits for the open.
  const first = await db.transact(async (transaction) => {
    const reads = []
    for (let n = 0; n < 200; n++) {
      transaction.put('key', String(n))
      reads.push(transaction.get('key'))
    }
    transaction.put('large', 'x'.repeat(3 << 20))
    transaction.put('after', '1')
    return Promise.all(reads)
  })
  assert.deepStrictEqual(first, Array.from({ length: 200 }, (_, n) => String(n)))
  assert.strictEqual((await db.get('large')).length, 3 << 20)
  // The commit comes after the puts that were called before it.
  const transaction = db.transaction()
  transaction.put('order', 'transaction')
  const put = db.put('order', 'put')
  await transaction.commit()
  await put
  assert.strictEqual(await db.get('order'), 'transaction')
  await db.close()
})

test('wrong keys and values, and damage', async (t) => {
  const db = await open(t, {}, await damaged(t))
  const transaction = db.transaction()
  assert.throws(() => transaction.put(null, '1'), { code: 'LEVEL_INVALID_KEY' })
  assert.throws(() => transaction.put('a', null), { code: 'LEVEL_INVALID_VALUE' })
  assert.throws(() => transaction.del(undefined), { code: 'LEVEL_INVALID_KEY' })
  await assert.rejects(transaction.get(null), { code: 'LEVEL_INVALID_KEY' })
  const json = { valueEncoding: 'json', limit: 1 }
  await assert.rejects(transaction.get('key-00000', json), { code: 'LEVEL_DECODE_ERROR' })
  await assert.rejects(entriesOf(transaction.iterator(json)), { code: 'LEVEL_DECODE_ERROR' })
  await assert.rejects(entriesOf(transaction.iterator()), { code: 'LEVEL_CORRUPTION' })
  // An error of a read does not end the transaction.
  assert.strictEqual(await transaction.get('key-00000'), 'value-0')
  await transaction.close()
})
