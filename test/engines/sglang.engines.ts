/** Baton in front of real SGLang servers without a GPU. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { chat, FRESH, forecastOf, modelsOf, pieces, STORY } from './asking.ts'
import { startBatonServer } from './process-logs.ts'
import { metricOf } from './python-engine.ts'
import type { RealServer } from './real-engine.ts'
import { sglangFolder, startSglang } from './real-sglang.ts'

const isThere = sglangFolder() !== null
const long = (nth: number): string =>
  `Number ${nth}. ${'The fox went through the forest and met a bear. '.repeat(20)}${STORY}`
const ask = (words: string): object => ({ messages: [{ role: 'user', content: words }] })

/** Requests that a server runs, queues or hands over, and tokens whose KV it holds for them. */
async function busyWith(server: RealServer): Promise<number> {
  const counts = await Promise.all(
    [
      'sglang:num_running_reqs',
      'sglang:num_queue_reqs',
      'sglang:num_prefill_bootstrap_queue_reqs',
      'sglang:num_prefill_inflight_queue_reqs',
      'sglang:num_decode_prealloc_queue_reqs',
      'sglang:num_decode_transfer_queue_reqs',
    ].map((name) => metricOf(server, name)),
  )
  return counts.reduce((sum, count) => sum + count, 0)
}

// SGLang updates its gauges only with a step or when idle for a while; `/v1/loads` is current.
async function heldTokens(server: RealServer): Promise<number> {
  const answer = await (await fetch(`${server.url}/v1/loads`, { headers: FRESH })).json()
  const { loads } = answer as { readonly loads: readonly { readonly num_used_tokens: number }[] }
  return loads.reduce((sum, { num_used_tokens: tokens }) => sum + tokens, 0)
}

let alone: RealServer

describe.skipIf(!isThere)('SGLang', () => {
  beforeAll(async () => {
    alone = await startSglang()
    await chat(alone.url, { max_tokens: 2 })
  })
  afterAll(() => alone?.kill())

  describe('aggregated', () => {
    let server: RunningServer
    beforeAll(async () => {
      server = await startBatonServer(['--upstream', alone.url])
    })
    afterAll(() => server?.stop())

    it('same text as from the server itself', async () => {
      const expected = await chat(alone.url)
      const seen = await chat(server.url)
      expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
      expect(seen.usage.completion_tokens).toBe(expected.usage.completion_tokens)
    })

    it('KV events - are received, and the predicted cached tokens equal the reported ones', async () => {
      const rows: string[] = []
      for (let nth = 0; nth < 3; nth++) {
        for (let round = 0; round < 2; round++) {
          const reply = await chat(server.url, { ...ask(long(nth)), max_tokens: 4 })
          const foretold = await forecastOf(server, reply.id)
          const cached = reply.usage.prompt_tokens_details?.cached_tokens ?? 0
          rows.push(`${foretold}/${cached}`)
          expect(Math.abs(foretold - cached)).toBeLessThanOrEqual(32)
          if (round > 0) expect(cached).toBeGreaterThan(200)
          await until('the blocks are known', async () => {
            const [{ self_check: lines }] = await modelsOf(server)
            return lines.some((line) => line.includes('KV events from 1 of 1 workers'))
          })
          // Events arrive a moment after the answer.
          await new Promise((resolve) => {
            setTimeout(resolve, 500)
          })
        }
      }
      console.log(`cached tokens, foretold/told: ${rows.join(' ')}`)
      expect((await modelsOf(server))[0].warnings).toEqual([])
    })

    it('a client that disconnects - the engine becomes idle', async () => {
      const leaving = new AbortController()
      const stream = pieces(server.url, { max_tokens: 2000, ignore_eos: true }, leaving.signal)
      for (let i = 0; i < 3; i++) await stream.next()
      leaving.abort()
      await until('it is idle', async () => (await busyWith(alone)) === 0)
    })
  })

  describe('separate prefill and decode over NIXL', () => {
    let p: RealServer
    let d: RealServer
    let server: RunningServer
    let apart: string
    beforeAll(async () => {
      // One after the other, because a start uses all CPU and memory.
      p = await startSglang('prefill')
      d = await startSglang('decode')
      apart = `prefill=${p.url},decode=${d.url}`
      server = await startBatonServer(['--upstream', apart, '--enforce-disagg'])
    })
    afterAll(async () => {
      await server?.stop()
      await p?.kill()
      await d?.kill()
    })

    it('same texts as from one server, sequentially and concurrently', async () => {
      for (let nth = 10; nth < 13; nth++) {
        const expected = await chat(alone.url, ask(long(nth)))
        const seen = await chat(server.url, ask(long(nth)))
        expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
        expect(seen.usage.completion_tokens).toBe(expected.usage.completion_tokens)
      }
      const many = [20, 21, 22, 23, 24, 25, 26, 27]
      const texts = async (url: string): Promise<readonly (string | undefined)[]> => {
        const replies = await Promise.all(many.map((nth) => chat(url, ask(long(nth)))))
        return replies.map(({ choices }) => choices[0]?.message.content)
      }
      expect(await texts(server.url)).toEqual(await texts(alone.url))
      const [{ disaggregation, warnings }] = await modelsOf(server)
      expect(disaggregation).toMatchObject({ requests: 11, disaggregated: 11 })
      expect(warnings).toEqual([])
      await until('both are idle', async () => (await busyWith(p)) + (await busyWith(d)) === 0)
    })

    it('a client that disconnects between the legs or during an answer - nothing is leaked', async () => {
      for (const [nth, leaveMs] of [5, 20, 60, 120, 250, 600].entries()) {
        const leaving = new AbortController()
        const fields = { ...ask(long(30 + nth)), max_tokens: 2000, ignore_eos: true }
        const stream = pieces(server.url, fields, leaving.signal)
        setTimeout(() => leaving.abort(), leaveMs)
        const read = (async () => {
          for await (const _ of stream) continue
        })()
        await read.catch(() => undefined)
      }
      await until('both are idle', async () => (await busyWith(p)) + (await busyWith(d)) === 0)
      await until('no KV is held', async () => (await heldTokens(d)) === 0)
      const seen = await chat(server.url, ask(long(36)))
      const expected = await chat(alone.url, ask(long(36)))
      expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
    })

    it('forward mode - same text as from one server, whole and streamed', async () => {
      const forwarding = await startBatonServer([
        '--upstream',
        apart,
        '--forward',
        '--enforce-disagg',
      ])
      try {
        const expected = await chat(alone.url, ask(long(50)))
        const seen = await chat(forwarding.url, ask(long(50)))
        expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
        let text = ''
        for await (const piece of pieces(forwarding.url, { ...ask(long(51)), max_tokens: 64 })) {
          text += piece
        }
        const other = await chat(alone.url, ask(long(51)))
        expect(text).toBe(other.choices[0]?.message.content)
      } finally {
        await forwarding.stop()
      }
    })

    it('the decode server dies during an answer - the client gets an error and the prefill server releases its KV', async () => {
      const stream = pieces(server.url, { ...ask(long(40)), max_tokens: 3000, ignore_eos: true })
      for (let i = 0; i < 5; i++) await stream.next()
      await d.kill()
      const rest = (async () => {
        for await (const _ of stream) continue
      })()
      await expect(rest).rejects.toThrow()
      await until('P is idle', async () => (await busyWith(p)) === 0)
      await until('it is known', async () => (await modelsOf(server))[0].workers.length === 1)
    })

    it('the prefill server dies - it is reported, and requests are refused', async () => {
      await p.kill()
      await until('it is known', async () => {
        const [{ warnings }] = await modelsOf(server)
        return warnings.some((text) => text.includes('prefill workers have left'))
      })
      await expect(chat(server.url, ask(long(41)))).rejects.toThrow(/503|404/)
    })
  })
})
