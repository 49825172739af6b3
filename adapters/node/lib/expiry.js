'use strict'

const ModuleError = require('module-error')

// The expiry of an entry that never expires.
const NEVER = 0xffffffffffffffffn

// The largest time of a Date, in milliseconds.
const LAST_DATE = 8.64e15

// Returns the expiry that the options `ttl` or `expires` of a put ask for, in milliseconds since
// 1970; `undefined` outside of expiring keyspaces.
function expiryOf (options, isExpiring) {
  const { ttl, expires } = options
  if (!isExpiring) {
    if (ttl == null && expires == null) return undefined
    const which = ttl == null ? 'expires' : 'ttl'
    throw new ModuleError(`The option '${which}' requires an expiring keyspace`, {
      code: 'LEVEL_NOT_SUPPORTED'
    })
  }
  if (ttl == null && expires == null) return NEVER
  if (ttl != null && expires != null) {
    throw new TypeError("The options 'ttl' and 'expires' exclude each other")
  }
  return ttl != null ? millis('ttl', ttl, Date.now()) : millis('expires', expires, 0)
}

function millis (name, value, from) {
  const number = value instanceof Date ? value.getTime() : value
  if (typeof number !== 'number') {
    throw new TypeError(`The option '${name}' must be a number, received ${typeof value}`)
  }
  if (!(number >= 0)) {
    throw new RangeError(`The option '${name}' must not be negative, received ${number}`)
  }
  const time = Math.floor(from + number)
  return Number.isSafeInteger(time) ? BigInt(time) : NEVER
}

// Returns the expiry `millis`, a number or a bigint, as a Date, or `null` for never.
function dateOf (millis) {
  return Number(millis) > LAST_DATE ? null : new Date(Number(millis))
}

module.exports = { NEVER, expiryOf, dateOf }
