'use strict'

const { AS_BUFFER } = require('./binding')
const { Frames, FrameReader, values, scratch } = require('./frames')

// Maximum number of native calls that run at the same time, which is libuv's number of threads.
// Further gets wait.
const CALLS = 4

// Maximum number of keys in a group. With larger groups, some threads would be idle instead of
// reading from the disk.
const GROUP_KEYS = 32

// The gets of a database that are called without the option `snapshot`.
//
// Gets that arrive while `CALLS` calls are running wait, and then share one call. Each get sees the
// database as it was when the get was called.
class Reader {
  #native
  #calls = 0
  #waiting = []

  constructor (native) {
    this.#native = native
  }

  // Returns a promise of the value of `key`, or of `undefined`.
  get (key, flags) {
    if (this.#calls < CALLS) return this.#start(this.#native.get(scratch.bare(key), flags))
    let group = this.#waiting.at(-1)
    if (group === undefined || !group.mayTake(flags, this.#native.sequence())) {
      group = new Group(this.#native, flags)
      this.#waiting.push(group)
    }
    return group.add(key)
  }

  #start (promise) {
    this.#calls++
    const next = () => this.#next()
    promise.then(next, next)
    return promise
  }

  #next () {
    this.#calls--
    const group = this.#waiting.shift()
    if (group !== undefined) this.#start(group.read())
  }
}

// Gets that read the same state and share one call.
class Group {
  #native
  #flags
  #frames = new Frames()
  #gets = []
  // A snapshot of that state, and the number of the last write that it contains.
  #snapshot
  #sequence

  constructor (native, flags) {
    this.#native = native
    this.#flags = flags
    this.#sequence = native.sequence()
    this.#snapshot = native.snapshot()
  }

  mayTake (flags, sequence) {
    return flags === this.#flags && sequence === this.#sequence && this.#gets.length < GROUP_KEYS
  }

  add (key) {
    this.#frames.key(key)
    return new Promise((resolve, reject) => this.#gets.push({ resolve, reject }))
  }

  async read () {
    try {
      this.#settle(await this.#native.getMany(this.#frames.bytes(), this.#flags, this.#snapshot))
    } catch (error) {
      // An error of one key must not fail the gets of the other keys.
      await this.#readOneByOne()
    } finally {
      this.#snapshot.close()
    }
  }

  #settle (bytes) {
    const found = values(bytes, (this.#flags & AS_BUFFER) === 0)
    this.#gets.forEach(({ resolve }, index) => resolve(found[index]))
  }

  async #readOneByOne () {
    const keys = new FrameReader(this.#frames.bytes())
    for (const { resolve, reject } of this.#gets) {
      const key = keys.data(keys.number(), false)
      try {
        resolve(await this.#native.get(key, this.#flags, this.#snapshot))
      } catch (error) {
        reject(error)
      }
    }
  }
}

module.exports = { Reader }
