/**
 * Run in its own network namespace (`unshare -rn`): an upstream that answers after a long time, and one whose
 * machine disappears before a kept connection carries the next request.
 */
import { execFileSync } from 'node:child_process'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../src/base/index.ts'
import { osClock } from '../../src/os/index.ts'
import { fetchWhole } from '../../src/upstream/client/fetch-json.ts'
import { UpstreamClient } from '../../src/upstream/client/upstream-client.ts'
import { parseUpstreamUrl } from '../../src/upstream/client/upstream-url.ts'

const UNCONFIRMED_MS = 500
const network = (state: 'up' | 'down'): unknown => execFileSync('ip', ['link', 'set', 'lo', state])

network('up')
const server = createServer((_, res) => {
  setTimeout(() => res.end('ok'), 4 * UNCONFIRMED_MS)
}).listen(0, '127.0.0.1')
await new Promise((resolve) => server.once('listening', resolve))
const client = new UpstreamClient({
  url: parseUpstreamUrl(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
  clock: osClock,
  deadlines: { unconfirmedMs: UNCONFIRMED_MS },
})
const ask = async (): Promise<string> => {
  try {
    const request = { method: 'POST', path: '/v1/completions', body: '{}', retries: false }
    await fetchWhole(client, request, { deadlineMs: 50_000 })
    return 'answered'
  } catch (thrown) {
    return BatonError.from(thrown).code
  }
}
process.stdout.write(`computes: ${await ask()}\n`)
network('down')
process.stdout.write(`vanished: ${await Promise.race([ask(), sleep(40_000, 'waits')])}\n`)
process.exit(0)
