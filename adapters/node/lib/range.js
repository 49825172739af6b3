'use strict'

const binding = require('./binding')
const { scratch } = require('./frames')

// Returns keys as frames, valid until the next call.
function framesOf (keys) {
  scratch.truncate(0)
  for (const key of keys) scratch.key(key)
  return scratch.bytes()
}

// Returns the bounds of a range, as separate frames, and flags. `gte` and `lte` take precedence
// over `gt` and `lt`.
function rangeOf (options) {
  const bounds = []
  let flags = options.reverse ? binding.REVERSE : 0
  const lower = options.gte ?? options.gt
  const upper = options.lte ?? options.lt
  if (lower !== undefined) {
    bounds.push(lower)
    flags |= binding.HAS_LOWER | (options.gte !== undefined ? binding.WITH_LOWER : 0)
  }
  if (upper !== undefined) {
    bounds.push(upper)
    flags |= binding.HAS_UPPER | (options.lte !== undefined ? binding.WITH_UPPER : 0)
  }
  return [Buffer.from(framesOf(bounds)), flags]
}

module.exports = { framesOf, rangeOf }
