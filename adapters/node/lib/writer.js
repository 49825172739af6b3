'use strict'

const { Frames } = require('./frames')

// Size above which no more writes are added to a group, in bytes.
const GROUP_BYTES = 1 << 20

// The writes of a database and of its keyspaces, in the order of their calls.
//
// At most one call of the native module is running. Writes that arrive during the call wait and
// form one batch, so many small writes cost little more than one write.
class Writer {
  #isBusy = false
  #waiting = []
  #scratch = new Frames()

  // Atomically writes to `native` the entries that `fill` puts into frames. Returns a promise.
  write (native, fill, sync) {
    if (this.#isBusy) return this.#join(native, fill, sync)
    this.#scratch.truncate(0)
    fill(this.#scratch)
    return this.#start(native.write(this.#scratch.bytes(), sync))
  }

  // Makes the call `call` when all earlier calls have ended. Returns a promise of its result.
  call (call) {
    if (!this.#isBusy) return this.#start(call())
    return new Promise((resolve, reject) => {
      this.#waiting.push({ call, native: null, settle: [{ resolve, reject }] })
    })
  }

  #start (promise) {
    this.#isBusy = true
    const next = () => this.#next()
    promise.then(next, next)
    return promise
  }

  #join (native, fill, sync) {
    let group = this.#waiting.at(-1)
    if (group === undefined || group.native !== native || group.frames.length > GROUP_BYTES) {
      group = new Group(native)
      this.#waiting.push(group)
    }
    return group.add(fill, sync)
  }

  #next () {
    const group = this.#waiting.shift()
    this.#isBusy = group !== undefined
    if (!this.#isBusy) return

    let promise
    try {
      promise = group.call()
    } catch (error) {
      promise = Promise.reject(error)
    }
    // The next group starts before the promises of this group are settled.
    const settle = (how) => (result) => {
      this.#next()
      for (const one of group.settle) one[how](result)
    }
    promise.then(settle('resolve'), settle('reject'))
  }
}

// Writes to one database or keyspace that form one batch.
class Group {
  #sync = false
  native
  frames = new Frames()
  settle = []

  constructor (native) {
    this.native = native
  }

  add (fill, sync) {
    const length = this.frames.length
    try {
      fill(this.frames)
    } catch (error) {
      this.frames.truncate(length)
      throw error
    }
    this.#sync ||= sync
    return new Promise((resolve, reject) => this.settle.push({ resolve, reject }))
  }

  call () {
    return this.native.write(this.frames.bytes(), this.#sync)
  }
}

module.exports = { Writer }
