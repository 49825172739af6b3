'use strict'

// Pseudo-random choices, which a seed determines.
class Random {
  #state

  constructor (seed) {
    this.#state = seed >>> 0
  }

  // Returns an integer from 0 up to but excluding `end`.
  below (end) {
    this.#state = (this.#state + 0x9e3779b9) >>> 0
    let mixed = Math.imul(this.#state ^ (this.#state >>> 16), 0x21f0aaad)
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97)
    return ((mixed ^ (mixed >>> 15)) >>> 0) % end
  }

  // Returns true with a probability of 1 in `times`.
  oneIn (times) {
    return this.below(times) === 0
  }

  of (choices) {
    return choices[this.below(choices.length)]
  }

  bytes (length) {
    return Buffer.from(Array.from({ length }, () => this.below(256)))
  }
}

module.exports = { Random }
