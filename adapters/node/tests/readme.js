'use strict'

// Runs the programs of the README one after the other, in the directory that the first argument
// names, and compares what each prints with the text that follows it.

const assert = require('assert')
const fs = require('fs')
const path = require('path')
const { execFileSync } = require('child_process')

const directory = process.argv[2]
const readme = fs.readFileSync(path.join(__dirname, '../README.md'), 'utf8')
const parts = [...readme.matchAll(/```js\n(.*?)```\n\n```text\n(.*?)```/gs)]
assert.strictEqual(parts.length, 3)
parts.forEach(([, program, expected], number) => {
  const file = path.join(directory, `part-${number}.mjs`)
  fs.writeFileSync(file, program)
  const printed = execFileSync(process.execPath, [file], { cwd: directory, encoding: 'utf8' })
  assert.strictEqual(printed, expected)
})
