'use strict'

// Uses the installed package as a program does: node use.js EXPECTED THEIRS, with a copy of a
// database of LevelDB, and its entries in hex. Prints a line at the end.

const assert = require('assert')
const fs = require('fs')
const path = require('path')
const { MinikvLevel } = require('minikv')

const [expected, theirs] = process.argv.slice(2)
const own = path.join(path.dirname(theirs), 'own')

async function main () {
  let db = new MinikvLevel(own)
  await db.put('apple', 'red')
  await db.batch([
    { type: 'put', key: 'banana', value: 'yellow' },
    { type: 'put', key: 'cherry', value: 'dark red' }
  ], { sync: true })
  await db.del('apple')
  await db.close()

  db = new MinikvLevel(own, { createIfMissing: false })
  assert.strictEqual(await db.get('apple'), undefined)
  assert.strictEqual(await db.get('banana'), 'yellow')
  assert.deepStrictEqual(await db.iterator({ reverse: true }).all(),
    [['cherry', 'dark red'], ['banana', 'yellow']])
  await assert.rejects(new MinikvLevel(own).open({ passive: false }))
  await db.close()

  const encoding = { keyEncoding: 'hex', valueEncoding: 'hex', createIfMissing: false }
  db = new MinikvLevel(theirs, encoding)
  const lines = (await db.iterator().all()).map((entry) => entry.join('\t') + '\n')
  assert.strictEqual(lines.join(''), fs.readFileSync(expected, 'latin1'))
  await db.close()
  console.log(`used: Node.js ${process.version}, ${process.platform} ${process.arch}, ` +
    `${lines.length} entries of LevelDB`)
}

main().catch((error) => {
  console.error(error)
  process.exit(1)
})
