import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from './free-port.ts'
import { BatonsInTurn } from './in-turn.ts'
import { startServer } from './running-server.ts'
import type { RunningServer } from './running-server.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

describe('baton top and baton doctor', () => {
  const folder = mkdtempSync(join(tmpdir(), 'baton-operate-'))
  const discovery = `file:${folder}`
  let server: RunningServer

  beforeAll(async () => {
    server = await startServer(['--engine', 'sim', '--aggregated', '2', '--discovery', discovery])
  })
  afterAll(async () => {
    await server.stop()
    rmSync(folder, { recursive: true, force: true })
  })

  it('top with a server - prints its workers once and without colours', async () => {
    const { exitCode, printed } = await batons.run(['top', '--url', server.url, '--once'])
    expect(exitCode).toBe(0)
    expect(printed).toContain('storyteller: 2 workers')
    expect(printed.match(/aggregated +serving/g)).toHaveLength(2)
    expect(printed).not.toContain('\u001B')
  })

  it('top with a discovery - asks the workers directly', async () => {
    const { exitCode, printed } = await batons.run([
      'top',
      '--discovery',
      discovery,
      '--once',
      '--json',
    ])
    const fleet = JSON.parse(printed) as { models: { workers: { state: string }[] }[] }
    expect(exitCode).toBe(0)
    expect(fleet.models[0]?.workers.map(({ state }) => state)).toEqual(['serving', 'serving'])
  })

  it('doctor - a healthy fleet has no findings, seen from its server and from its workers', async () => {
    // Mistakes of clients are no faults of the fleet.
    const body = JSON.stringify({ model: 'storyteller', prompt: 5 })
    const headers = { 'content-type': 'application/json' }
    const refused = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers, body })
    expect(refused.status).toBe(400)
    for (const where of [
      ['--url', server.url],
      ['--discovery', discovery],
    ]) {
      const { exitCode, printed } = await batons.run(['doctor', ...where])
      expect([exitCode, printed]).toEqual([0, expect.stringContaining('\n0 faults')])
    }
  })

  it("doctor - a secret that differs from the workers' is named with a remedy", async () => {
    const other = await batons.run([
      'doctor',
      '--discovery',
      discovery,
      '--wire-secret',
      'x'.repeat(32),
    ])
    expect(other.exitCode).toBe(1)
    expect(other.printed).toMatch(/FAIL +connections +worker .*\n +→ .*--wire-secret/)
  })

  it('no server answers - top prints one sentence, doctor a finding', async () => {
    const url = `http://127.0.0.1:${await freePort()}`
    expect(await batons.run(['top', '--url', url, '--once'])).toMatchObject({
      exitCode: 1,
      printed: `baton: no server at ${url}: start one with 'baton serve', or name it with --url\n`,
    })
    const { exitCode, printed } = await batons.run(['doctor', '--url', url])
    expect([exitCode, printed]).toEqual([1, expect.stringMatching(/FAIL +server +no server at/)])
  })

  it.each([
    ['doctor', /FAIL +fleet +the discovery folder [^\n]+typo does not exist\n +→ correct the path/],
    ['top', /^baton: the discovery folder [^\n]+typo does not exist: correct the path, .*\n$/],
  ])(
    '%s with a discovery folder that does not exist - names it and does not create it',
    async (command, text) => {
      const typo = join(folder, 'typo')
      const { exitCode, printed } = await batons.run([command, '--discovery', `file:${typo}`])
      expect(printed).toMatch(text)
      expect([exitCode, existsSync(typo)]).toEqual([1, false])
    },
  )

  it.each(['0', 'x', '3601'])('top --interval %s - is refused', async (interval) => {
    const { exitCode, printed } = await batons.run(['top', '--interval', interval])
    expect([exitCode, printed]).toEqual([2, expect.stringContaining('--interval')])
  })
})

describe('baton doctor with a KV port that cannot be reached', () => {
  it.each([
    ['recompute', 200, /FAIL +hand-over +2 of 2 KV transfers were not used.*\n +→ .*KV port/],
    ['fail', 503, /FAIL +requests +2 of 2 requests failed .*kv\.transfer_failed.*\n +→ .*KV port/],
  ])('--kv-failure %s - is a fault', async (policy, status, finding) => {
    const server = await startServer(['--kv-failure', policy, '--drain-seconds', '1'], {
      BATON_KV_ADVERTISE: '127.0.0.1:1',
    })
    try {
      for (const word of ['amber ', 'birch ']) {
        const body = { model: 'storyteller', prompt: word.repeat(60), max_tokens: 2 }
        const reply = await fetch(`${server.url}/v1/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify(body),
        })
        await reply.text()
        expect(reply.status).toBe(status)
      }
      const { exitCode, printed } = await batons.run(['doctor', '--url', server.url])
      expect(printed).toMatch(finding)
      expect(exitCode).toBe(1)
    } finally {
      await server.stop()
    }
  })
})
