import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it, onTestFinished } from 'vitest'
import { freePort } from './free-port.ts'
import { startBaton } from './running-server.ts'

/** The first token of a prompt says what is wrong with its model; the KV is the prompt. */
const MODULE = `
setInterval(() => undefined, 1_000)
const kvOf = (ids) => new Uint8Array(ids.slice().buffer)
const faults = [
  (_, done) => setTimeout(done, 1, null),
  (_, done) => setTimeout(done, 1, new ArrayBuffer(8)),
  (_, done) => setTimeout(done, 1, new Error('no memory')),
  async () => { throw new Error('rejected') },
  () => { throw null },
]
export function prefill(ids, done) {
  const fault = faults[Number(ids[0])]
  if (fault) return fault(ids, done)
  if (ids[0] === 7n) setTimeout(() => { throw new Error('a timer of the module') }, 1)
  setTimeout(done, 5, kvOf(ids))
}
const steps = [{ tokenId: 5 }, undefined, { tokenId: 5n }, Promise.reject(new Error('rejected')), 7]
steps[3].catch(() => undefined)
export function decodeStep(kv) {
  const first = Number(new DataView(kv.buffer, kv.byteOffset).getBigInt64(0, true))
  if (first === 23) return Promise.reject(new Error('rejected'))
  if (first === 28) Promise.reject(new Error('a promise of the module'))
  if (first >= 20 && first < 25) return steps[first - 20]
  return { tokenId: BigInt(first), kv }
}
`

async function startFleet(module: string) {
  const start = async (args: readonly string[]) => {
    const running = await startBaton(['boostr', ...args], / at /)
    onTestFinished(async () => {
      running.process.kill('SIGKILL')
      await running.ended
    })
    return running
  }
  const [decodePort, prefillPort, httpPort] = [await freePort(), await freePort(), await freePort()]
  const at = (port: number): string => `127.0.0.1:${port}`
  const places = { decode: `2=${at(decodePort)}`, prefill: `1=${at(prefillPort)}` }
  const model = ['--module', module]
  const decode = await start(['decode', '--rank', '2', '--listen', at(decodePort), '--accept', '0', '1', ...model]) // prettier-ignore
  const prefill = await start(['prefill', '--rank', '1', '--listen', at(prefillPort), '--accept', '0', '--decode-workers', places.decode, ...model]) // prettier-ignore
  await prefill.untilPrinted(/rank 2 is connected/)
  const router = await start(['router', '--rank', '0', '--http', at(httpPort), '--prefill-workers', places.prefill, '--decode-workers', places.decode]) // prettier-ignore
  for (const rank of [1, 2]) await router.untilPrinted(new RegExp(`rank ${rank} is connected`))
  const ask = async (first: number) => {
    const body = JSON.stringify({ prompt: [first, 1], max_tokens: 1_000 })
    const reply = await fetch(`http://${at(httpPort)}/v1/completions`, { method: 'POST', body }) // prettier-ignore
    return (await reply.json()) as { tokens?: number[]; error?: { code: string } }
  }
  return { decode, prefill, router, ask }
}

describe('baton boostr --module', () => {
  it('whatever its functions hand over, and errors outside of them - other requests continue, SIGTERM ends it', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'baton-boostr-'))
    onTestFinished(() => rmSync(folder, { recursive: true }))
    const module = join(folder, 'model.mjs')
    writeFileSync(module, MODULE)
    const { decode, prefill, router, ask } = await startFleet(module)
    const innocents = [ask(50), ask(51), ask(7), ask(28)]
    const steps = [20, 21, 22, 23, 24].map((first) => ask(first))
    for (const first of [0, 1, 2, 3, 4]) {
      expect(await ask(first)).toMatchObject({ error: { code: 'kv.transfer_failed' } })
    }
    for (const step of steps)
      expect(await step).toMatchObject({ error: { code: 'backend.unknown' } })
    for (const [i, first] of [50, 51, 7, 28].entries()) {
      expect((await innocents[i])?.tokens).toEqual(Array<number>(1_000).fill(first))
    }
    expect((await ask(52)).tokens?.[0]).toBe(52)
    expect(prefill.printed()).toMatch(/unhandled error of the module.*a timer of the module/)
    expect(decode.printed()).toMatch(/unhandled error of the module.*a promise of the module/)
    for (const one of [router, prefill, decode]) {
      one.process.kill('SIGTERM')
      expect(await one.ended).toBe(0)
    }
  })
})
