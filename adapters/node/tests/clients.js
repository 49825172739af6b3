'use strict'

// Runs a session of a program that stores its data with LevelDB, and prints what it then reads:
// node clients.js FOLDER PROGRAM DIR LABEL
//
// The program is a package that FOLDER has installed. The session adds entries with the label to
// the directory DIR, and reads everything in it.

const assert = require('assert')
const path = require('path')
const { createRequire } = require('module')

const [folder, program, dir, label] = process.argv.slice(2)
const installed = createRequire(path.resolve(folder, 'package.json'))

// From before abstract-level, with leveldown.
async function level () {
  const db = installed('level')(dir, { valueEncoding: 'json' })
  const entries = Array.from({ length: 500 }, (_, i) => ({
    type: 'put', key: `${label} ${i}`, value: { i, text: 'é'.repeat(i) }
  }))
  await db.batch(entries)
  await db.del(`${label} 7`)
  await assert.rejects(db.get(`${label} 7`), { notFound: true })
  const read = []
  for await (const entry of db.iterator()) read.push(entry)
  await db.close()
  return read
}

async function dynalite () {
  const server = installed('dynalite')({ path: dir, createTableMs: 0 })
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve))
  const scope = 'Credential=key/20200101/us-east-1/dynamodb/aws4_request'
  const call = async (name, body) => {
    const answer = await fetch(`http://127.0.0.1:${server.address().port}/`, {
      method: 'POST',
      body: JSON.stringify(body),
      headers: {
        'content-type': 'application/x-amz-json-1.0',
        'x-amz-target': `DynamoDB_20120810.${name}`,
        'x-amz-date': '20200101T000000Z',
        authorization: `AWS4-HMAC-SHA256 ${scope}, SignedHeaders=host, Signature=none`
      }
    })
    const text = await answer.text()
    assert(answer.ok, text)
    return JSON.parse(text)
  }
  const TableName = `fruit-${label}`
  await call('CreateTable', {
    TableName,
    AttributeDefinitions: [{ AttributeName: 'id', AttributeType: 'N' }],
    KeySchema: [{ AttributeName: 'id', KeyType: 'HASH' }],
    ProvisionedThroughput: { ReadCapacityUnits: 1, WriteCapacityUnits: 1 }
  })
  const status = async () => (await call('DescribeTable', { TableName })).Table.TableStatus
  while (await status() !== 'ACTIVE') await new Promise((resolve) => setTimeout(resolve, 10))
  for (let id = 0; id < 100; id++) {
    await call('PutItem', { TableName, Item: { id: { N: String(id) }, text: { S: label } } })
  }
  await call('DeleteItem', { TableName, Key: { id: { N: '7' } } })
  const { TableNames } = await call('ListTables', {})
  const read = await Promise.all(TableNames.map((name) => call('Scan', { TableName: name })))
  await new Promise((resolve) => server.close(resolve))
  return read
}

async function yLeveldb () {
  const { LeveldbPersistence } = installed('y-leveldb')
  const { Doc, encodeStateAsUpdate } = installed('yjs')
  const store = new LeveldbPersistence(dir)
  for (const name of ['shared', label]) {
    const doc = new Doc()
    doc.clientID = label.charCodeAt(0)
    doc.getText('text').insert(0, `by ${label}; `)
    doc.getMap('map').set(label, label.length)
    await store.storeUpdate(name, encodeStateAsUpdate(doc))
    await store.setMeta(name, label, { label })
  }
  await store.clearDocument('none')
  const read = []
  for (const name of await store.getAllDocNames()) {
    const doc = await store.getYDoc(name)
    const metas = [...await store.getMetas(name)]
    read.push([name, doc.getText('text').toString(), doc.getMap('map').toJSON(), metas])
  }
  await store.destroy()
  return read
}

const sessions = { level, dynalite, 'y-leveldb': yLeveldb }

sessions[program]().then((read) => {
  assert(read.length > 0)
  console.log(JSON.stringify(read))
})
