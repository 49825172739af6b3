'use strict'

const assert = require('assert')
const test = require('node:test')
const { AS_BUFFER } = require('../../lib/binding')
const { Frames, FrameReader } = require('../../lib/frames')
const { Reader } = require('../../lib/reader')
const { Writer } = require('../../lib/writer')

// A fake native database whose calls end only when the test ends them.
class Fake {
  calls = []
  number = 0
  snapshots = 0

  call (name, ...arguments_) {
    return new Promise((resolve, reject) => {
      this.calls.push({ name, arguments_, resolve, reject })
    })
  }

  get (key, flags, snapshot) {
    return this.call('get', Buffer.from(key).toString(), flags, snapshot)
  }

  getMany (frames, flags, snapshot) {
    return this.call('getMany', keysOf(frames), flags, snapshot)
  }

  write (frames, sync) {
    return this.call('write', Buffer.from(frames), sync)
  }

  sequence () {
    return this.number
  }

  snapshot () {
    this.snapshots++
    return { number: this.number, close: () => this.snapshots-- }
  }

  names () {
    return this.calls.map(({ name }) => name)
  }
}

function keysOf (frames) {
  const reader = new FrameReader(frames)
  const keys = []
  while (!reader.isEmpty) keys.push(reader.data(reader.number(), true))
  return keys
}

// Returns values as the native module does.
function valuesOf (...values) {
  const frames = new Frames()
  for (const value of values) frames.key(value)
  return Buffer.from(frames.bytes())
}

const settled = () => new Promise((resolve) => setImmediate(resolve))

test('gets wait for each other when as many calls are under way as there are threads', async () => {
  const native = new Fake()
  const reader = new Reader(native)
  const gets = Array.from({ length: 7 }, (_, n) => reader.get('key-' + n, 0))
  assert.deepStrictEqual(native.names(), Array(4).fill('get'))
  assert.strictEqual(native.snapshots, 1)
  // Gets after a write, and gets with other flags, form separate groups.
  native.number++
  const after = [reader.get('after', 0), reader.get('after too', 0)]
  const other = reader.get('other', AS_BUFFER)
  assert.strictEqual(native.snapshots, 3)

  native.calls[0].resolve('0')
  native.calls[1].reject(new Error('1'))
  native.calls[2].resolve('2')
  await assert.rejects(gets[1], /1/)
  await settled()
  const groups = native.calls.slice(4).map(({ name, arguments_ }) => {
    const [keys, flags, snapshot] = arguments_
    return [name, keys, flags, snapshot.number]
  })
  assert.deepStrictEqual(groups, [
    ['getMany', ['key-4', 'key-5', 'key-6'], 0, 0],
    ['getMany', ['after', 'after too'], 0, 1],
    ['getMany', ['other'], AS_BUFFER, 1]
  ])
  native.calls[4].resolve(valuesOf('4', '5', '6'))
  native.calls[6].resolve(valuesOf('bytes'))
  assert.deepStrictEqual(await Promise.all(gets.slice(4)), ['4', '5', '6'])
  assert.deepStrictEqual(await other, Buffer.from('bytes'))

  // If a group fails, its gets are repeated one by one, on the same snapshot.
  native.calls[5].reject(new Error('one of them'))
  await settled()
  assert.deepStrictEqual(native.calls[7].arguments_.slice(0, 2), ['after', 0])
  assert.strictEqual(native.calls[7].arguments_[2].number, 1)
  native.calls[7].resolve('after')
  await settled()
  native.calls[8].reject(new Error('damaged'))
  assert.strictEqual(await after[0], 'after')
  await assert.rejects(after[1], /damaged/)
  await settled()
  assert.strictEqual(native.snapshots, 0)
})

test('a group of gets has 32 keys at most', async () => {
  const native = new Fake()
  const reader = new Reader(native)
  for (let n = 0; n < 4 + 70; n++) reader.get('key', 0)
  for (const call of native.calls.slice(0, 4)) call.resolve('value')
  await settled()
  const sizes = native.calls.slice(4).map(({ arguments_ }) => arguments_[0].length)
  assert.deepStrictEqual(sizes, [32, 32, 6])
})

test('writes make groups, in their order', async () => {
  const native = new Fake()
  const writer = new Writer()
  const put = (key) => (frames) => frames.put(key, '')
  const first = writer.write(native, put('first'), false)
  const some = [['a', false], ['b', true], ['c', false]].map(([key, sync]) => {
    return writer.write(native, put(key), sync)
  })
  const cleared = writer.call(() => native.call('clear'))
  const last = writer.write(native, put('last'), false)
  const wrong = (frames) => {
    frames.put('half', '')
    throw new Error('on purpose')
  }
  assert.throws(() => writer.write(native, wrong, false), /on purpose/)
  const failing = writer.call(() => { throw new Error('at once') })
  const end = writer.write(native, put('end'), false)

  const next = async (expected) => {
    await settled()
    const { name, arguments_, resolve } = native.calls.shift()
    assert.deepStrictEqual(native.calls, [])
    const [frames, sync] = arguments_
    const keys = frames?.toString('latin1').match(/[a-z]+/g)
    assert.deepStrictEqual([name, keys, sync], expected)
    return resolve
  }
  ;(await next(['write', ['first'], false]))()
  await first
  // If one write of a group is synced, the whole group is.
  ;(await next(['write', ['a', 'b', 'c'], true]))()
  await Promise.all(some)
  ;(await next(['clear', undefined, undefined]))('cleared')
  assert.strictEqual(await cleared, 'cleared')
  ;(await next(['write', ['last'], false]))()
  await last
  await assert.rejects(failing, /at once/)
  ;(await next(['write', ['end'], false]))()
  await end
})

test('writes of a group that fails fail together, and the next go on', async () => {
  const native = new Fake()
  const writer = new Writer()
  const write = () => writer.write(native, (frames) => frames.del('key'), false)
  const first = write()
  const group = [write(), write()]
  native.calls[0].reject(new Error('full'))
  await assert.rejects(first, /full/)
  await settled()
  native.calls[1].reject(new Error('still full'))
  for (const one of group) await assert.rejects(one, /still full/)
  const later = write()
  native.calls[2].resolve()
  await later
})

test('a large group takes no more writes', async () => {
  const native = new Fake()
  const writer = new Writer()
  const large = Buffer.alloc(700_000)
  for (let n = 0; n < 6; n++) writer.write(native, (frames) => frames.put('key', large), false)
  for (let n = 0; n < 4; n++) {
    native.calls[n]?.resolve()
    await settled()
  }
  const sizes = native.calls.map(({ arguments_ }) => Math.round(arguments_[0].length / 700_000))
  assert.deepStrictEqual(sizes, [1, 2, 2, 1])
})
