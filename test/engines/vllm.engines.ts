/** Baton in front of real vLLM servers without a GPU: slow to start, with exact results. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { chat, forecastOf, FRESH, JSON_HEADERS, modelsOf, pieces, STORY } from './asking.ts'
import { startBatonServer } from './process-logs.ts'
import { metricOf } from './python-engine.ts'
import { startVllm, vllmFolder } from './real-vllm.ts'
import type { RealVllm } from './real-vllm.ts'

const isThere = vllmFolder() !== null
const long = (nth: number): string =>
  `Number ${nth}. ${'The fox went through the forest and met a bear. '.repeat(20)}${STORY}`
const ask = (words: string): object => ({ messages: [{ role: 'user', content: words }] })

describe.skipIf(!isThere)('vLLM, aggregated', () => {
  let engine: RealVllm
  let server: RunningServer
  beforeAll(async () => {
    engine = await startVllm()
    server = await startBatonServer(['--upstream', engine.url])
    // The first request triggers compilation.
    await chat(engine.url, { max_tokens: 2 })
  })
  afterAll(async () => {
    await server?.stop()
    await engine?.kill()
  })

  it('same tokens as from the server itself', async () => {
    const expected = await chat(engine.url)
    const seen = await chat(server.url)
    expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
    expect(seen.usage.completion_tokens).toBe(expected.usage.completion_tokens)
  })

  it('KV events - are received, and the predicted cached tokens equal the reported ones', async () => {
    const rows: string[] = []
    for (let nth = 0; nth < 4; nth++) {
      for (let round = 0; round < 3; round++) {
        const reply = await chat(server.url, { ...ask(long(nth)), max_tokens: 4 })
        const foretold = await forecastOf(server, reply.id)
        const cached = reply.usage.prompt_tokens_details?.cached_tokens ?? 0
        rows.push(`${foretold}/${cached}`)
        expect(Math.abs(foretold - cached)).toBeLessThanOrEqual(32)
        if (round > 0) expect(cached).toBeGreaterThan(200)
        // Events arrive a moment after the answer.
        await until('the blocks are known', async () => {
          const [{ self_check: lines }] = await modelsOf(server)
          return lines.some((line) => line.includes('KV events from 1 of 1 workers'))
        })
        await new Promise((resolve) => {
          setTimeout(resolve, 200)
        })
      }
    }
    console.log(`cached tokens, foretold/told: ${rows.join(' ')}`)
    expect((await modelsOf(server))[0].warnings).toEqual([])
  })

  it('Baton started after the engine - knows its cached blocks before the first request', async () => {
    const late = await startBatonServer(['--upstream', engine.url])
    try {
      await until('it has read the past', async () => {
        const [{ self_check: lines }] = await modelsOf(late)
        return lines.some((line) => line.includes('KV events from 1 of 1 workers'))
      })
      const reply = await chat(late.url, { ...ask(long(0)), max_tokens: 4 })
      const foretold = await forecastOf(late, reply.id)
      console.log(
        `late: foretold ${foretold}, told ${reply.usage.prompt_tokens_details?.cached_tokens}`,
      )
      expect(foretold).toBeGreaterThan(200)
    } finally {
      await late.stop()
    }
  })

  it('a client that disconnects - the engine becomes idle', async () => {
    const leaving = new AbortController()
    const stream = pieces(server.url, { max_tokens: 2000, ignore_eos: true }, leaving.signal)
    for (let i = 0; i < 3; i++) await stream.next()
    const leftMs = performance.now()
    leaving.abort()
    await until(
      'it is idle',
      async () => (await metricOf(engine, 'vllm:num_requests_running')) === 0,
    )
    console.log(`vLLM idle ${(performance.now() - leftMs).toFixed(0)} ms after the client left`)
  })

  it('structured output - is valid', async () => {
    const schema = {
      type: 'object',
      properties: { name: { type: 'string', maxLength: 8 }, age: { type: 'integer' } },
      required: ['name', 'age'],
      additionalProperties: false,
    }
    const reply = await chat(server.url, {
      response_format: { type: 'json_schema', json_schema: { name: 'x', schema } },
    })
    expect(JSON.parse(reply.choices[0]?.message.content ?? '')).toMatchObject({
      age: expect.any(Number) as number,
    })
  })
})

/** All texts within an answer of any format, in order. */
async function textsOf(url: string, path: string, body: object): Promise<readonly string[]> {
  const response = await fetch(url + path, {
    method: 'POST',
    headers: JSON_HEADERS,
    body: JSON.stringify(body),
  })
  const answer = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status} ${answer}`)
  return [...answer.matchAll(/"text":"((?:[^"\\]|\\.)*)"/g)].map(([, text]) => text ?? '')
}

/** Why attempts at a request failed. */
async function failuresOf({ url }: RunningServer, id: string): Promise<readonly string[]> {
  const text = await (await fetch(`${url}/debug/requests/${id}`, { headers: FRESH })).text()
  const attempts = text.match(/\{[^{}]*"migrated"[^{}]*\}/g) ?? []
  return attempts.map((attempt) => /"errorMessage":"([^"]*)"/.exec(attempt)?.[1] ?? attempt)
}

/**
 * Hand-overs that the decode server failed because the prefill server did not answer the first contact of the two
 * within vLLM's limit of 5 s, which happens on a busy machine. Fails if there was another reason.
 */
function lateHandshakes({ log }: RealVllm): number {
  const count = (what: RegExp): number => log.all().match(what)?.length ?? 0
  const late = count(/NIXL transfer failure: handshake_failed/g)
  expect(count(/Failing \d+ request\(s\) due to KV load failure/g)).toBe(late)
  expect(count(/zmq\.error\.Again/g)).toBeGreaterThanOrEqual(late)
  return late
}

const FAILED_HAND_OVER =
  'the engine failed (status 500, Internal server error) on a request with the KV of a prefill server: its log has the reason'

/** A server that was too busy to read a request for 5 s takes its connection for an idle one, and closes it. */
const CLOSED_BEFORE = 'the upstream closed the connection before its response'

describe.skipIf(!isThere)('vLLM, separate prefill and decode over NIXL', () => {
  let p: RealVllm
  let d: RealVllm
  let server: RunningServer
  beforeAll(async () => {
    // One after the other, because a start uses all CPU and memory.
    p = await startVllm('prefill')
    d = await startVllm('decode')
    server = await startBatonServer([
      '--upstream',
      `prefill=${p.url},decode=${d.url}`,
      '--enforce-disagg',
    ])
    await chat(p.url, { max_tokens: 2 })
    await chat(d.url, { max_tokens: 2 })
  })
  afterAll(async () => {
    await server?.stop()
    await p?.kill()
    await d?.kill()
  })

  it('same tokens as from one server, and the transferred bytes are counted', async () => {
    const before = await metricOf(d, 'vllm:nixl_bytes_transferred_sum')
    const failures: string[] = []
    for (let nth = 10; nth < 13; nth++) {
      const expected = await chat(p.url, { ...ask(long(nth)), cache_salt: 'alone' })
      const seen = await chat(server.url, ask(long(nth)))
      expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
      failures.push(...(await failuresOf(server, seen.id)))
    }
    let bytes = 0
    await until('bytes are counted', async () => {
      bytes = (await metricOf(d, 'vllm:nixl_bytes_transferred_sum')) - before
      return bytes > 0
    })
    const [{ disaggregation, self_check: lines, warnings }] = await modelsOf(server)
    console.log(
      `NIXL moved ${bytes} bytes in 3 requests; ${lines.join('; ')}; ${warnings.join('; ')}`,
    )
    // Each answer above is right and used KV of a prefill leg; a failed hand-over was begun again, and Baton said so.
    expect(lines).toContain('KV was handed over in 3 of 3 decode legs')
    const late = lateHandshakes(d)
    const others = failures.filter((failure) => failure !== FAILED_HAND_OVER)
    expect(failures.length - others.length).toBe(late)
    expect(others.filter((failure) => failure !== CLOSED_BEFORE)).toEqual([])
    expect(disaggregation).toMatchObject({ disaggregated: 3 + failures.length })
    for (const failure of failures) expect(server.printed()).toContain(failure)
  })

  it('a client that disconnects between the legs - no blocks are leaked', async () => {
    const leaving = new AbortController()
    const stream = pieces(server.url, { ...ask(long(20)), max_tokens: 2000 }, leaving.signal)
    const first = stream.next().catch(() => undefined)
    setTimeout(() => leaving.abort(), 60)
    await first
    await until('both are idle', async () => {
      const running = await Promise.all(
        [p, d].map((each) => metricOf(each, 'vllm:num_requests_running')),
      )
      return running.every((count) => count === 0)
    })
    await until(
      'the blocks are free',
      async () => (await metricOf(p, 'vllm:kv_cache_usage_perc')) === 0,
    )
    console.log(`expired at P: ${await metricOf(p, 'vllm:nixl_num_kv_expired_reqs_total')}`)
  })

  it('forward mode - same text as from one server, and the transferred bytes are counted', async () => {
    const forwarding = await startBatonServer([
      '--upstream',
      `prefill=${p.url},decode=${d.url}`,
      '--forward',
      '--enforce-disagg',
    ])
    try {
      const before = await metricOf(d, 'vllm:nixl_bytes_transferred_sum')
      const expected = await chat(p.url, { ...ask(long(50)), cache_salt: 'alone' })
      const seen = await chat(forwarding.url, ask(long(50)))
      expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
      let text = ''
      for await (const piece of pieces(forwarding.url, { ...ask(long(51)), max_tokens: 64 })) {
        text += piece
      }
      const alone = await chat(p.url, { ...ask(long(51)), cache_salt: 'alone' })
      expect(text).toBe(alone.choices[0]?.message.content)
      let bytes = 0
      await until('bytes are counted', async () => {
        bytes = (await metricOf(d, 'vllm:nixl_bytes_transferred_sum')) - before
        return bytes > 0
      })
      console.log(`passed through: NIXL moved ${bytes} bytes in 2 requests`)
      for (const [path, body] of [
        ['/v1/messages', { ...ask(long(52)), max_tokens: 24 }],
        ['/v1/responses', { input: long(53), max_output_tokens: 24 }],
      ] as const) {
        const asked = { model: 'storyteller', temperature: 0, ...body }
        const moved = await metricOf(d, 'vllm:nixl_bytes_transferred_sum')
        const through = await textsOf(forwarding.url, path, asked)
        expect(through.join('')).not.toBe('')
        expect(through).toEqual(await textsOf(p.url, path, { ...asked, cache_salt: 'alone' }))
        await until(
          `bytes are counted for ${path}`,
          async () => (await metricOf(d, 'vllm:nixl_bytes_transferred_sum')) > moved,
        )
        const now = await metricOf(d, 'vllm:nixl_bytes_transferred_sum')
        console.log(`${path}: NIXL moved ${now - moved} bytes`)
      }
    } finally {
      await forwarding.stop()
    }
  })

  it('a hand-over that no server fetches - is released at the end of its lease, not before', async () => {
    const before = await metricOf(p, 'vllm:nixl_num_kv_expired_reqs_total')
    const orphanMs = performance.now()
    await chat(p.url, {
      ...ask(long(60)),
      max_tokens: 1,
      kv_transfer_params: { do_remote_decode: true, do_remote_prefill: false },
    })
    expect(await metricOf(p, 'vllm:kv_cache_usage_perc')).toBeGreaterThan(0)
    const isFree = async (): Promise<boolean> =>
      (await metricOf(p, 'vllm:kv_cache_usage_perc')) === 0
    while (!(await isFree()) && performance.now() - orphanMs < 90_000) {
      await new Promise((resolve) => {
        setTimeout(resolve, 250)
      })
    }
    expect(await isFree()).toBe(true)
    const seconds = (performance.now() - orphanMs) / 1000
    const expired = (await metricOf(p, 'vllm:nixl_num_kv_expired_reqs_total')) - before
    console.log(`the lease ended after ${seconds.toFixed(1)} s, expired at P: ${expired}`)
    expect(expired).toBe(1)
    // The same prompt through Baton has its own hand-over.
    const expected = await chat(p.url, { ...ask(long(60)), cache_salt: 'alone' })
    const seen = await chat(server.url, ask(long(60)))
    expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
  })

  it('the decode server dies during an answer - the client gets an error and the prefill server releases its KV', async () => {
    const stream = pieces(server.url, { ...ask(long(40)), max_tokens: 3000, ignore_eos: true })
    for (let i = 0; i < 5; i++) await stream.next()
    await d.kill()
    const rest = (async () => {
      for await (const _ of stream) continue
    })()
    await expect(rest).rejects.toThrow()
    await until('P is idle', async () => (await metricOf(p, 'vllm:num_requests_running')) === 0)
    await until('it is known', async () => (await modelsOf(server))[0].workers.length === 1)
  })

  it('the prefill server dies - it is reported, and requests are refused', async () => {
    await p.kill()
    await until('it is known', async () => {
      const [{ warnings }] = await modelsOf(server)
      return warnings.some((text) => text.includes('prefill workers have left'))
    })
    await expect(chat(server.url, ask(long(30)))).rejects.toThrow(/503|404/)
  })
})
