'use strict'

// Serves the package files of folders as npm's registry would: node registry.js PORTFILE FOLDER...
// writes its port to PORTFILE, and runs until it is killed.

const crypto = require('crypto')
const fs = require('fs')
const http = require('http')
const path = require('path')
const { execFileSync } = require('child_process')

const [portFile, ...folders] = process.argv.slice(2)
const files = folders.flatMap((folder) => fs.readdirSync(folder).map((name) => {
  return path.join(folder, name)
})).filter((file) => file.endsWith('.tgz'))

// Package names to their documents.
const documents = new Map()
for (const file of files) {
  const manifest = JSON.parse(execFileSync('tar', ['-xzOf', file, 'package/package.json']))
  const sha = crypto.createHash('sha512').update(fs.readFileSync(file)).digest('base64')
  const { name, version } = manifest
  const document = documents.get(name) ?? { name, 'dist-tags': {}, versions: {} }
  document['dist-tags'].latest = version
  document.versions[version] = { ...manifest, dist: { file, integrity: `sha512-${sha}` } }
  documents.set(name, document)
}

const server = http.createServer((request, response) => {
  const url = decodeURIComponent(request.url)
  const file = files.find((file) => url === `/-/${path.basename(file)}`)
  if (file !== undefined) return fs.createReadStream(file).pipe(response)
  const document = documents.get(url.slice(1))
  if (document === undefined) return response.writeHead(404).end('{}')
  const at = `http://127.0.0.1:${server.address().port}/-/`
  response.end(JSON.stringify(document, (key, value) => {
    if (key !== 'dist') return value
    return { integrity: value.integrity, tarball: at + path.basename(value.file) }
  }))
})
server.listen(0, '127.0.0.1', () => {
  fs.writeFileSync(portFile + '.new', String(server.address().port))
  fs.renameSync(portFile + '.new', portFile)
})
