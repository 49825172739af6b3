// Uses of the package that the compiler checks, and errors that it must find. Nothing in this file
// is run.

import { Backup, Change, ClassicLevel, Keyspace, MinikvLevel, OpenOptions, VerifyReport } from '..'

export async function uses (): Promise<void> {
  const db = new MinikvLevel('fruit.db', { cacheSize: 1 << 20, filterLayout: 'both' })
  await db.put('apple', 'red', { sync: true })
  const color: string | undefined = await db.get('apple')
  const asBytes = { valueEncoding: 'buffer' }
  const bytes: Buffer | undefined = await db.get<string, Buffer>('apple', asBytes)
  const now: string | undefined = db.getSync('apple', { fillCache: false })
  const many: Array<string | undefined> = await db.getMany(['apple'])
  const there: boolean[] = await db.hasMany(['apple'])
  await db.batch([{ type: 'put', key: 'a', value: 'b' }, { type: 'del', key: 'c' }], { sync: true })
  await db.batch().put('a', 'b').del('c').write({ sync: true })
  for await (const [key, value] of db.iterator({ gte: 'a', highWaterMarkBytes: 1 << 20 })) {
    console.log(key.length, value.length)
  }
  const snapshot = db.snapshot()
  const keys: string[] = await db.keys({ snapshot }).all()
  await snapshot.close()
  const size: number = await db.approximateSize('a', 'z')
  await db.compactRange(Buffer.from('a'), Buffer.from('z'), { keyEncoding: 'buffer' })
  const report: VerifyReport = await MinikvLevel.verify(db.location)
  const files: Array<string | null> = report.faults.map((fault) => fault.file)
  const healthy: boolean = (await MinikvLevel.repair('fruit.db', { dryRun: true })).healthy
  const options: OpenOptions = { readOnly: true }
  await db.open(options)
  const changed: boolean = await db.refresh()
  const json = new MinikvLevel<number, { color: string }>('json.db', { valueEncoding: 'json' })
  const fruit: string | undefined = (await json.get(1))?.color
  await json.sublevel('one').put('a', 'b')
  console.log(color, bytes, now, many, there, keys, size, files, healthy, changed, fruit)

  const steps: string[] = (await db.explain('apple')).steps.map((step) => {
    return step.step === 'block' ? step.source : step.step
  })
  const blocks: number = (await db.explain('apple')).this_get.levels[0].data_blocks_from_file
  const classic: ClassicLevel = db
  console.log(steps, blocks, classic.location)

  // @ts-expect-error: the value is not a string
  await db.put('apple', 1)
  // @ts-expect-error: there is no such layout
  console.log(new MinikvLevel('fruit.db', { filterLayout: 'blocks' }))
  // @ts-expect-error: the path is missing
  await db.checkpoint()
  // @ts-expect-error: the property is read-only
  db.readOnly = true
}

export async function features (db: MinikvLevel): Promise<void> {
  type User = { name: string }
  const users: Keyspace<string, User> = db.keyspace<string, User>('users', {
    valueEncoding: 'json'
  })
  const sessions = db.keyspace('sessions', { expiring: true })
  await users.put('ann', { name: 'Ann' })
  await sessions.put('s1', 'ann', { ttl: 1000 })
  await sessions.batch([{ type: 'put', key: 's2', value: 'bob', expires: new Date() }])
  await sessions.batch().put('s3', 'cat', { ttl: 1000 }).put('s4', 'dan').write({ sync: true })
  const expiry: Date | null | undefined = await sessions.expiry('s1')
  const name: string | undefined = (await users.get('ann'))?.name
  const names: Array<string | Buffer> = (await db.keyspaces()).map(({ name }) => name)

  const transaction = db.transaction()
  const red: string | undefined = await transaction.get('apple')
  const ann: User | undefined = await transaction.get<string, User>('ann', { keyspace: users })
  transaction.put('apple', 'red')
  transaction.put('ann', { name: 'Anna' }, { keyspace: users })
  for await (const [key, value] of transaction.iterator({ gte: 'a', limit: 7, reverse: true })) {
    console.log(key.length, value.length)
  }
  await transaction.commit({ sync: true })
  await transaction.close()
  const count: number = await db.transact(async (inner) => {
    inner.del('apple')
    return (await inner.getMany(['a', 'b'])).length
  }, { sync: true })

  const changes = db.changes(db.sequence)
  for await (const { sequence, operations } of changes) {
    for (const operation of operations) {
      console.log(sequence, operation.key.length, operation.keyspace?.name)
      if (operation.type === 'put') console.log(operation.value.length, operation.expires)
    }
  }
  const next: Change<Buffer, Buffer> | undefined =
    await db.changes<Buffer, Buffer>(0, { keyEncoding: 'buffer', valueEncoding: 'buffer' }).next()
  const made: Backup = await db.backup('folder', { keep: 7 })
  const listed: Backup[] = await MinikvLevel.backups('folder')
  await MinikvLevel.restore('folder', 'copy.db', { number: made.number })
  const faults: string[] = (await MinikvLevel.verifyBackups('folder')).map(({ what }) => what)
  console.log(expiry, name, names, red, ann, count, next, listed, faults)

  // @ts-expect-error: a keyspace comes from its database
  console.log(new Keyspace())
  // @ts-expect-error: the value is not a user
  await users.put('ann', 'Ann')
  // @ts-expect-error: a put of a transaction has a value
  transaction.put('apple')
  // @ts-expect-error: a time is no text
  await sessions.put('s1', 'ann', { ttl: '1h' })
}
