/**
 * The baseline of a proxy in JavaScript: node:http on both sides, keep-alive connections, the answer piped
 * unchanged, upstreams in turn. Arguments: their ports. Prints its own port.
 */
import { Agent, createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'

const ports = process.argv.slice(2).map(Number)
const agent = new Agent({ keepAlive: true, maxFreeSockets: 256 })
let turn = 0

const server = createServer((req, res) => {
  const { method, url: path, headers } = req
  const port = ports[turn++ % ports.length]
  const { 'content-type': type = '', 'content-length': length = '0' } = headers
  const out = request({
    agent,
    port,
    host: '127.0.0.1',
    method,
    path,
    headers: { 'content-type': type, 'content-length': length },
  })
  out.on('response', (answer) => {
    const { statusCode = 502, headers: answered } = answer
    delete answered['transfer-encoding']
    delete answered.connection
    res.writeHead(statusCode, answered)
    answer.pipe(res)
  })
  out.on('error', () => res.destroy())
  req.pipe(out)
})
server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port))
// Exits together with the process that has started it.
process.stdin.on('end', () => process.exit(0)).resume()
