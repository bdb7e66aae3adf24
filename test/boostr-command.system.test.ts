import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { toyToken } from '../src/cli/commands/boostr-model.ts'
import { BoostrMesh, TOKEN_EOS } from '../src/boostr/index.ts'
import { encodeKvCache } from '../src/boostr/protocol/boostr-message.ts'
import { wrapKv } from '../src/boostr/protocol/kv-envelope.ts'
import { startBaton } from './running-server.ts'
import type { RunningBaton } from './running-server.ts'
import { until } from './until.ts'

const SECRET = { BATON_WIRE_SECRET: 'the fleet' }

function singleNode(prompt: string, maxTokens: number): number[] {
  const tokens = Array.from(prompt, (point) => BigInt(point.codePointAt(0) ?? 0))
  const output: number[] = []
  while (output.length < maxTokens) {
    const token = toyToken(tokens)
    if (token === TOKEN_EOS) break
    tokens.push(token)
    output.push(Number(token))
  }
  return output
}

async function startRole(args: readonly string[], environment = SECRET): Promise<RunningBaton> {
  const running = await startBaton(['boostr', ...args], / at /, environment)
  onTestFinished(async () => {
    running.process.kill('SIGKILL')
    await running.ended
  })
  return running
}

const addressOf = (running: RunningBaton): string =>
  / at (?:http:\/\/)?(\S+)/.exec(running.printed())?.[1] ?? ''

async function ask(address: string, body: unknown) {
  const reply = await fetch(`http://${address}/v1/completions`, {
    method: 'POST',
    body: JSON.stringify(body),
  })
  return { status: reply.status, body: (await reply.json()) as Record<string, unknown> }
}

async function startFleet() {
  const decode = [
    await startRole(['decode', '--rank', '3', '--accept', '0', '1', '2']),
    await startRole(['decode', '--rank', '4', '--accept', '0', '1', '2']),
  ]
  const decodes = ['--decode-workers', `3=${addressOf(decode[0]!)}`, `4=${addressOf(decode[1]!)}`]
  const prefill = [
    await startRole(['prefill', '--rank', '1', '--accept', '0', ...decodes]),
    await startRole(['prefill', '--rank', '2', '--accept', '0', ...decodes]),
  ]
  const prefills = [
    '--prefill-workers',
    `1=${addressOf(prefill[0]!)}`,
    `2=${addressOf(prefill[1]!)}`,
  ]
  for (const one of prefill)
    await one.untilPrinted(/rank 3 is connected[^]*rank 4|rank 4 is connected[^]*rank 3/)
  const router = await startRole([
    'router',
    '--rank',
    '0',
    '--http',
    '127.0.0.1:0',
    ...prefills,
    ...decodes,
  ])
  for (const rank of [1, 2, 3, 4])
    await router.untilPrinted(new RegExp(`rank ${rank} is connected`))
  return { decode, prefill, router, http: addressOf(router) }
}

describe('baton boostr - a fleet of processes', () => {
  it('requests - get the same tokens as from a single node, survive the loss of a worker, and Ctrl-C shuts down cleanly', async () => {
    const { prefill, decode, router, http } = await startFleet()
    const prompts = Array.from({ length: 12 }, (_, i) => 'Once upon a time '.repeat(i + 1) + i)
    const replies = await Promise.all(
      prompts.map((prompt, i) => ask(http, { prompt, max_tokens: 30, session_id: `s${i % 3}` })),
    )
    replies.forEach(({ status, body }, i) => {
      const tokens = singleNode(prompts[i] ?? '', 30)
      expect([status, body]).toEqual([200, { tokens, token_count: tokens.length }])
    })

    prefill[0]?.process.kill('SIGKILL')
    decode[0]?.process.kill('SIGKILL')
    await Promise.all([prefill[0]?.ended, decode[0]?.ended])
    for (let i = 0; i < 4; i++) {
      const { status, body } = await ask(http, { prompt: [7, i], max_tokens: 5 })
      if (status === 200) expect(body['token_count']).toBeGreaterThan(0)
      else expect(body).toMatchObject({ error: { code: 'backend.worker_unavailable' } })
    }
    const last = await ask(http, { prompt: 'after it', max_tokens: 9 })
    expect(last).toMatchObject({ status: 200, body: { tokens: singleNode('after it', 9) } })
    expect((await ask(http, { prompt: '' })).status).toBe(400)
    const health = await fetch(`http://${http}/health`)
    expect(await health.json()).toEqual({
      status: 'ok',
      load: 0,
      warnings: [
        expect.stringMatching(/^prefill worker 1: rank 1 at /),
        expect.stringMatching(/^decode worker 3: rank 3 at /),
      ],
    })

    for (const one of [router, prefill[1], decode[1]]) {
      one?.process.kill('SIGTERM')
      expect(await one?.ended).toBe(0)
    }
  })
})

/** The KV is the prompt, and the answer repeats its first token; a prompt is computed until the file `go-…` exists. */
const SLOW_MODEL = `
import { existsSync, writeFileSync } from 'node:fs'
export function prefill(ids, done) {
  const file = (name) => new URL(name + '-' + ids[0], import.meta.url)
  const kv = new Uint8Array(ids.slice().buffer)
  writeFileSync(file('started'), '')
  const timer = setInterval(() => {
    if (!existsSync(file('go'))) return
    clearInterval(timer)
    done(kv)
    writeFileSync(file('done'), '')
  }, 10)
}
export function decodeStep(kv) {
  return { tokenId: new DataView(kv.buffer, kv.byteOffset).getBigInt64(0, true), kv }
}
`

describe('baton boostr router', () => {
  it('is killed and starts again while a prompt is computed - the next client gets the answer to its own', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-boostr-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const model = join(folder, 'model.mjs')
    writeFileSync(model, SLOW_MODEL)
    const module = ['--module', model]
    const decode = await startRole(['decode', '--rank', '2', '--accept', '0', '1', ...module])
    const decodes = ['--decode-workers', `2=${addressOf(decode)}`]
    const accept = ['--accept', '0', ...decodes]
    const prefill = await startRole(['prefill', '--rank', '1', ...accept, ...module])
    await prefill.untilPrinted(/rank 2 is connected/)
    const startRouter = async () => {
      const prefills = ['--prefill-workers', `1=${addressOf(prefill)}`]
      const http = ['--rank', '0', '--http', '127.0.0.1:0']
      const router = await startRole(['router', ...http, ...prefills, ...decodes])
      for (const rank of [1, 2]) await router.untilPrinted(new RegExp(`rank ${rank} is connected`))
      return router
    }
    const untilFile = (name: string) => until(name, () => existsSync(join(folder, name)))

    const former = await startRouter()
    const lost = ask(addressOf(former), { prompt: [83, 1], max_tokens: 3 }).catch(() => 'lost')
    await untilFile('started-83')
    former.process.kill('SIGKILL')
    expect(await lost).toBe('lost')
    const router = await startRouter()
    const reply = ask(addressOf(router), { prompt: [77, 2], max_tokens: 3 })
    await untilFile('started-77')
    writeFileSync(join(folder, 'go-83'), '')
    await untilFile('done-83')
    writeFileSync(join(folder, 'go-77'), '')
    expect((await reply).body).toEqual({ tokens: [77, 77, 77], token_count: 3 })
  })
})

describe('baton boostr decode', () => {
  it('unclaimed KV - does not prevent shutdown', async () => {
    const decode = await startRole(['decode', '--rank', '3', '--accept', '1'])
    let acknowledged: () => void = () => undefined
    const held = new Promise<void>((resolve) => (acknowledged = resolve))
    const mesh = await BoostrMesh.listen({
      rank: 1,
      ranks: [3],
      secret: SECRET.BATON_WIRE_SECRET,
      createNode: () => ({
        receive: () => acknowledged(),
        peerGone: () => undefined,
        close: () => undefined,
      }),
    })
    onTestFinished(() => mesh.close())
    const [host = '', port] = addressOf(decode).split(':')
    mesh.dial(3, host, Number(port))
    await mesh.reached(3)
    const envelope = { startPosition: 1, routerRank: 0, requestId: 1n, lastToken: 5n }
    for (const frame of encodeKvCache(wrapKv(envelope, new Uint8Array(1000)))) mesh.send(3, frame)
    await held
    decode.process.kill('SIGTERM')
    expect(await decode.ended).toBe(0)
  })
})

describe('baton - a port that is open to other machines', () => {
  it('without authentication - a warning of one line is printed', async () => {
    const args = ['boostr', 'decode', '--rank', '2', '--accept', '0', '--listen', '0.0.0.0:0']
    const running = await startBaton(args, / at /)
    running.process.kill('SIGTERM')
    expect(await running.ended).toBe(0)
    const warnings = running.printed().match(/^baton: warning: 0\.0\.0\.0 can be reached .*$/gm)
    expect(warnings).toHaveLength(1)
  })
})
