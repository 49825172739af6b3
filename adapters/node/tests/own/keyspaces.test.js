'use strict'

const assert = require('assert')
const test = require('node:test')
const { place, open, fill } = require('./support')
const { MinikvLevel } = require('../..')

const pause = (millis) => new Promise((resolve) => setTimeout(resolve, millis))

test('keyspaces hold keys of their own', async (t) => {
  const db = new MinikvLevel(place(t))
  // Keyspaces of a database that is opening wait.
  const [users, emails] = ['users', 'emails'].map((name) => db.keyspace(name))
  await Promise.all([users.put('ann', 'Ann'), emails.put('ann', 'ann@example.org')])
  await db.put('ann', 'outside')
  assert.strictEqual(await users.get('ann'), 'Ann')
  assert.strictEqual(emails.getSync('ann'), 'ann@example.org')
  assert.deepStrictEqual(await users.getMany(['ann', 'bob']), ['Ann', undefined])
  assert.deepStrictEqual(await users.hasMany(['ann', 'bob']), [true, false])
  await users.batch([{ type: 'put', key: 'bob', value: 'Bob' }, { type: 'del', key: 'ann' }])
  await users.batch().put('cat', 'Cat').del('nobody').write({ sync: true })
  assert.deepStrictEqual(await users.iterator().all(), [['bob', 'Bob'], ['cat', 'Cat']])
  assert.deepStrictEqual(await users.keys({ reverse: true, limit: 1 }).all(), ['cat'])
  assert.deepStrictEqual(await users.values({ gt: 'bob' }).all(), ['Cat'])
  assert.deepStrictEqual(await db.keyspaces(), [
    { name: 'emails', expiring: false }, { name: 'users', expiring: false }
  ])
  assert.strictEqual(await db.get('ann'), 'outside')
  assert.strictEqual((await users.explain('bob')).found, true)
  assert.strictEqual((await users.explain('ann')).found, false)

  await users.clear({ limit: 1, reverse: true })
  assert.deepStrictEqual(await users.keys().all(), ['bob'])
  await users.clear()
  assert.deepStrictEqual(await users.keys().all(), [])
  assert.deepStrictEqual(await db.keyspaces(), [{ name: 'emails', expiring: false }])
  assert.strictEqual(await emails.get('ann'), 'ann@example.org')
  await db.close()
})

test('keyspaces have encodings, sublevels, snapshots, and sizes', async (t) => {
  const db = await open(t)
  const space = db.keyspace(new Uint8Array([0, 0xff]), { valueEncoding: 'json' })
  await space.put('a', { n: 1 })
  const snapshot = db.snapshot()
  const own = space.snapshot()
  await space.put('a', { n: 2 })
  for (const moment of [snapshot, own]) {
    assert.deepStrictEqual(await space.get('a', { snapshot: moment }), { n: 1 })
    assert.deepStrictEqual(await space.values({ snapshot: moment }).all(), [{ n: 1 }])
  }
  await own.close()
  await space.clear({ snapshot })
  assert.deepStrictEqual(await space.keys().all(), [])
  const sublevel = space.sublevel('inner')
  await sublevel.put('b', 'text')
  assert.deepStrictEqual(await space.keys().all(), ['!inner!b'])
  assert.deepStrictEqual(await db.keyspaces(), [{ name: Buffer.from([0, 0xff]), expiring: false }])
  await fill(space, 3000)
  await fill(db, 10)
  await space.compactRange('a', 'z')
  assert(await space.approximateSize('a', 'z') > 10000)
  assert(await db.approximateSize('a', 'z') < 10000)
  await snapshot.close()
})

test('writes to a database and to its keyspaces are in the order of their calls', async (t) => {
  const db = await open(t)
  const space = db.keyspace('space')
  await space.open()
  const writes = []
  for (let n = 0; n < 50; n++) writes.push(db.put('n', String(n)), space.put('n', String(n)))
  await Promise.all(writes)
  // The changes alternate, as the calls did.
  const names = []
  for await (const { operations } of db.changes(0)) {
    for (const { keyspace, value } of operations) names.push([keyspace?.name ?? 'db', value])
  }
  const expected = Array.from({ length: 100 }, (_, n) => [n % 2 ? 'space' : 'db', String(n >> 1)])
  assert.deepStrictEqual(names, expected)
})

test('keyspaces close with their database, and can be opened again', async (t) => {
  const db = await open(t)
  const space = db.keyspace('space')
  await space.put('a', '1')
  const snapshot = space.snapshot()
  const iterator = space.iterator()
  await iterator.next()
  const puts = Array.from({ length: 100 }, (_, n) => space.put('put-' + n, '1'))
  await db.close()
  await Promise.all(puts)
  assert.strictEqual(space.status, 'closed')
  await assert.rejects(space.get('a'), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await assert.rejects(iterator.next(), { code: 'LEVEL_ITERATOR_NOT_OPEN' })
  await assert.rejects(space.open(), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await snapshot.close()
  await db.open()
  await space.open()
  assert.strictEqual((await space.keys().all()).length, 101)
  await space.close()
  assert.strictEqual(db.status, 'open')
  await db.close()
  await db.open({ readOnly: true })
  await space.open()
  assert.strictEqual(await space.get('a'), '1')
  assert.strictEqual(space.getSync('a'), '1')
  await assert.rejects(space.put('a', '2'), { code: 'LEVEL_READONLY' })
  await assert.rejects(space.clear(), { code: 'LEVEL_READONLY' })
})

test('a database that closes waits for the calls of a keyspace that is closing', async (t) => {
  const location = place(t)
  const db = await open(t, {}, location)
  const space = db.keyspace('space')
  await space.open()
  const calls = Array.from({ length: 200 }, (_, n) => [
    space.put('put-' + n, '1'), space.clear({ lt: 'a' })
  ]).flat()
  const closed = space.close()
  while (space.status !== 'closing') await pause(0)
  await pause(1)
  await db.close()
  assert.strictEqual(space.status, 'closed')
  await Promise.all(calls)
  await closed
  await db.open()
  await space.open()
  assert.strictEqual((await space.keys().all()).length, 200)
})

test('a keyspace does not open in a database that has begun to close', async (t) => {
  const db = await open(t)
  const space = db.keyspace('space')
  const opened = assert.rejects(space.open(), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  await db.close()
  await opened
  assert.strictEqual(space.status, 'closed')
  await db.open()
  await space.open()
  await space.put('a', '1')
})

test('names of keyspaces', async (t) => {
  const db = await open(t)
  for (const name of ['', 'x'.repeat(256), undefined, null, 7, new Uint8Array(0)]) {
    assert.throws(() => db.keyspace(name), /'name' must have 1 to 255 bytes/)
  }
  assert.throws(() => db.keyspace('a', { expiring: 1 }), /'expiring' must be a boolean/)
  const long = db.keyspace('x'.repeat(255))
  await long.put('a', '1')
  assert.strictEqual(await long.get('a'), '1')
})

test('entries of expiring keyspaces expire', async (t) => {
  const db = await open(t)
  const sessions = db.keyspace('sessions', { expiring: true })
  const start = Date.now()
  await sessions.put('soon', '1', { ttl: 200 })
  await sessions.batch([
    { type: 'put', key: 'hour', value: '1', ttl: 3_600_000 },
    { type: 'put', key: 'date', value: '1', expires: new Date(start + 60_000) },
    { type: 'put', key: 'past', value: '1', expires: 1000 },
    { type: 'put', key: 'never', value: '1' },
    { type: 'put', key: 'infinite', value: '1', ttl: Infinity }
  ])
  await sessions.batch().put('chained', '1', { ttl: 60_000 }).write()
  const all = ['chained', 'date', 'hour', 'infinite', 'never', 'soon']
  assert.deepStrictEqual(await sessions.keys().all(), all)
  assert.strictEqual(await sessions.get('past'), undefined)
  assert.strictEqual(Number(await sessions.expiry('date')), start + 60_000)
  const hour = Number(await sessions.expiry('hour'))
  assert(hour >= start + 3_600_000 && hour <= Date.now() + 3_600_000)
  assert.strictEqual(await sessions.expiry('never'), null)
  assert.strictEqual(await sessions.expiry('infinite'), null)
  assert.strictEqual(await sessions.expiry('past'), undefined)
  assert.strictEqual(await sessions.expiry('nobody'), undefined)
  await pause(start + 250 - Date.now())
  assert.strictEqual(await sessions.get('soon'), undefined)
  assert.strictEqual(sessions.getSync('soon'), undefined)
  assert.strictEqual(await sessions.has('soon'), false)
  assert.deepStrictEqual(await sessions.keys().all(), all.slice(0, -1))
  assert.deepStrictEqual(await db.keyspaces(), [{ name: 'sessions', expiring: true }])
  // An ordinary keyspace of the same name is another one.
  assert.strictEqual(await db.keyspace('sessions', { expiring: false }).get('hour'), undefined)
})

test('a keyspace is found as it was made', async (t) => {
  const location = place(t)
  const db = new MinikvLevel(location)
  await db.keyspace('sessions', { expiring: true }).put('s1', 'ann', { ttl: 3_600_000 })
  await db.keyspace('users').put('ann', 'Ann')
  await db.close()

  const again = new MinikvLevel(location)
  const early = again.keyspace('sessions')
  assert.strictEqual(early.expiring, undefined)
  await early.put('s2', 'bob', { ttl: 3_600_000 })
  assert.deepStrictEqual(await early.keys().all(), ['s1', 's2'])
  assert.strictEqual(early.expiring, true)
  // A keyspace that is not open yet is found by the transaction that uses it.
  const options = { keyspace: again.keyspace('sessions'), ttl: 3_600_000 }
  await again.transact(async (transaction) => {
    transaction.put('s3', 'cat', options)
    assert.strictEqual(await transaction.get('s1', options), 'ann')
  })
  assert.deepStrictEqual(await early.keys().all(), ['s1', 's2', 's3'])
  assert.strictEqual(again.keyspace('users').expiring, false)
  assert.strictEqual(again.keyspace('new').expiring, false)

  const wrong = again.keyspace('users', { expiring: true })
  await assert.rejects(wrong.open(), (error) => /users/.test(error.cause?.message))
  const other = again.keyspace('sessions', { expiring: false })
  await other.put('s1', 'an ordinary entry')
  await assert.rejects(again.keyspace('sessions').open(), { code: 'LEVEL_DATABASE_NOT_OPEN' })
  assert.strictEqual(await other.get('s1'), 'an ordinary entry')
  assert.strictEqual(await early.get('s1'), 'ann')
  await again.close()
})

test('a keyspace that is opened again is found as it is then', async (t) => {
  const db = await open(t)
  const space = db.keyspace('s')
  await space.open()
  assert.strictEqual(space.expiring, false)
  await db.close()
  assert.strictEqual(space.expiring, undefined)

  const other = await open(t, {}, db.location)
  await other.keyspace('s', { expiring: true }).put('a', '1', { ttl: 3_600_000 })
  await other.close()
  await db.open()
  // A transaction finds a keyspace that is not open.
  const options = { keyspace: space, ttl: 3_600_000 }
  await db.transact(async (transaction) => {
    assert.strictEqual(await transaction.get('a', options), '1')
    transaction.put('b', '2', options)
  })
  await space.open()
  assert.strictEqual(space.expiring, true)
  assert.strictEqual(await space.get('a'), '1')
  await space.put('c', '3', { ttl: 3_600_000 })
  assert.deepStrictEqual(await space.values().all(), ['1', '2', '3'])

  // The same without a close of the database.
  const late = db.keyspace('late')
  await late.open()
  await late.close()
  await db.keyspace('late', { expiring: true }).put('a', '1', { ttl: 3_600_000 })
  await late.open()
  assert.strictEqual(late.expiring, true)
  assert.strictEqual(await late.get('a'), '1')
})

test('a transaction keeps no writes for a keyspace that has become another kind', async (t) => {
  const db = await open(t)
  const space = db.keyspace('s')
  await space.open()
  const transaction = db.transaction()
  transaction.put('a', 'longer than an expiry', { keyspace: space })
  await space.close()
  await db.keyspace('s', { expiring: true }).put('b', '1')
  await space.open()
  const invalid = { code: 'LEVEL_INVALID_ARGUMENT', message: /another kind/ }
  await assert.rejects(transaction.commit(), invalid)
  assert.deepStrictEqual(await space.keys().all(), ['b'])
})

const ELSEWHERE = {
  code: 'LEVEL_NOT_SUPPORTED',
  message: 'A batch cannot write to another keyspace: use a transaction'
}

test('a batch does not write to another keyspace', async (t) => {
  const db = await open(t)
  const [users, emails] = ['users', 'emails'].map((name) => db.keyspace(name))
  const [top, inner] = [db.sublevel('top'), users.sublevel('inner')]
  for (const store of [users, emails, top, inner]) await store.open()
  for (const store of [db, users]) await store.put('a', 'kept')
  const sibling = db.sublevel('sibling')
  for (const store of [top, inner, sibling]) await store.put('a', 'kept')
  for (const [store, sublevel] of [
    [db, users], [db, inner], [top, users], [top, inner], [users, db], [users, top],
    [users, emails], [inner, db], [inner, emails]
  ]) {
    const put = { type: 'put', key: 'a', value: 'lost' }
    for (const operation of [put, { type: 'del', key: 'a' }]) {
      await assert.rejects(store.batch([{ ...operation, sublevel }]), ELSEWHERE)
      await assert.rejects(store.batch([operation], { sublevel }), ELSEWHERE)
    }
    const chained = async () => store.batch().put('a', 'lost', { sublevel }).write()
    await assert.rejects(chained, ELSEWHERE)
  }
  for (const [store, sublevel] of [
    [db, users], [db, inner], [users, db], [users, emails], [top, users], [top, inner],
    [top, sibling], [inner, db], [inner, emails]
  ]) {
    const batch = store.batch()
    assert.throws(() => batch.del('a', { sublevel }), ELSEWHERE)
    await batch.close()
  }
  for (const store of [top, inner, sibling]) {
    assert.strictEqual(await store.get('a'), 'kept')
    await store.batch().del('a', { sublevel: store }).write()
    assert.strictEqual(await store.get('a'), undefined)
  }
  // The keys of keyspaces are the last ones of the database.
  for (const store of [db, users]) {
    assert.deepStrictEqual(await store.iterator({ lt: '~' }).all(), [['a', 'kept']])
  }

  // What lies within is written to.
  await db.batch([{ type: 'put', key: 'b', value: '1', sublevel: top }])
  await db.batch().put('c', '1', { sublevel: top }).del('b', { sublevel: top }).write()
  await users.batch([{ type: 'put', key: 'b', value: '1', sublevel: inner }])
  await users.batch().put('c', '1', { sublevel: users }).del('b', { sublevel: inner }).write()
  assert.deepStrictEqual(await db.keys({ lt: '~' }).all(), ['!top!c', 'a'])
  assert.deepStrictEqual(await users.keys().all(), ['a', 'c'])
})

test('a prewrite hook does not write to another keyspace', async (t) => {
  const db = await open(t)
  const users = db.keyspace('users')
  await users.open()
  for (const added of [{ type: 'put', key: 'a', value: '1' }, { type: 'del', key: 'a' }]) {
    const hook = (_, batch) => batch.add({ ...added, sublevel: users })
    db.hooks.prewrite.add(hook)
    await assert.rejects(db.put('b', '1'), ELSEWHERE)
    await assert.rejects(db.batch([{ type: 'put', key: 'b', value: '1' }]), ELSEWHERE)
    await assert.rejects(db.batch().put('b', '1').write(), ELSEWHERE)
    db.hooks.prewrite.delete(hook)
  }
  for (const store of [db, users]) assert.deepStrictEqual(await store.keys().all(), [])
})

test('wrong expiries are errors', async (t) => {
  const db = await open(t)
  const sessions = db.keyspace('sessions', { expiring: true })
  await assert.rejects(sessions.put('a', '1', { ttl: '1' }), /'ttl' must be a number/)
  await assert.rejects(sessions.put('a', '1', { ttl: -1 }), /'ttl' must not be negative/)
  await assert.rejects(sessions.put('a', '1', { ttl: NaN }), /'ttl' must not be/)
  await assert.rejects(sessions.put('a', '1', { expires: new Date(NaN) }), /'expires' must not be/)
  await assert.rejects(sessions.put('a', '1', { ttl: 1, expires: 1 }), /exclude each other/)
  const unsupported = { code: 'LEVEL_NOT_SUPPORTED', message: /requires an expiring keyspace/ }
  const plain = db.keyspace('plain')
  for (const store of [db, plain]) {
    await assert.rejects(store.put('a', '1', { ttl: 1 }), unsupported)
    await assert.rejects(store.batch([{ type: 'put', key: 'a', value: '1', expires: 1 }]),
      unsupported)
    assert.throws(() => store.batch().put('a', '1', { ttl: 1 }), unsupported)
  }
  assert.deepStrictEqual(await db.keys().all(), [])
})
