/** Standard error is a file on a disk without space: requests are served all the same. */
import { spawn } from 'node:child_process'
import { closeSync, existsSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, it, onTestFinished } from 'vitest'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))
/** Every write to it fails with ENOSPC. */
const FULL = '/dev/full'

it.skipIf(!existsSync(FULL))(
  'a full disk of logs - workers start and requests are served',
  async () => {
    const full = openSync(FULL, 'w')
    const args = ['serve', '--engine', 'sim', '--aggregated', '1', '--port', '0']
    const server = spawn(process.execPath, [MAIN, ...args, '--log-level', 'debug'], {
      stdio: ['ignore', 'pipe', full],
    })
    closeSync(full)
    onTestFinished(() => void server.kill('SIGKILL'))
    let printed = ''
    server.stdout?.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    await until('it serves', () => /Try it/.test(printed))
    const url = /http:\/\/127\.0\.0\.1:\d+/.exec(printed)?.[0]
    const body = JSON.stringify({ prompt: 'hello', max_tokens: 2 })
    const headers = { 'content-type': 'application/json' }
    for (let count = 0; count < 3; count++) {
      const reply = await fetch(`${url}/v1/completions`, { method: 'POST', headers, body })
      expect(reply.status).toBe(200)
      await reply.json()
    }
    server.kill('SIGTERM')
    const code = await new Promise((resolve) => server.once('exit', resolve))
    expect(code).toBe(0)
  },
)
