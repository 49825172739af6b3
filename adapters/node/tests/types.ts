// Uses of the package that the compiler checks, and errors that it must find. Nothing in this file
// is run.

import { MinikvLevel, OpenOptions, VerifyReport } from '..'

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

  // @ts-expect-error: the value is not a string
  await db.put('apple', 1)
  // @ts-expect-error: there is no such layout
  console.log(new MinikvLevel('fruit.db', { filterLayout: 'blocks' }))
  // @ts-expect-error: the path is missing
  await db.checkpoint()
  // @ts-expect-error: the property is read-only
  db.readOnly = true
}
