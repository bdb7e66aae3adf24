/** Baton in front of real llama-servers; each test starts its own servers. */
import { copyFileSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { osClock } from '../../src/os/index.ts'
import { describeFailures, runConformance } from '../../src/testing/index.ts'
import { UpstreamEngine } from '../../src/upstream/index.ts'
import { startBaton } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'
import { until } from '../until.ts'
import { chat, modelsOf, pieces, STORY } from './asking.ts'
import { startBatonServer } from './process-logs.ts'
import { ask, GGUF, llamaServerBinary, startLlamaServer } from './real-engine.ts'
import type { RealServer } from './real-engine.ts'

const open: (() => unknown)[] = []
afterEach(async () => {
  for (const end of open.splice(0).toReversed()) await end()
})

async function llama(flags: readonly string[] = []): Promise<RealServer> {
  const server = await startLlamaServer(flags)
  open.push(() => server.kill())
  return server
}

async function baton(args: readonly string[]): Promise<RunningServer> {
  const server = await startBatonServer(args)
  open.push(() => server.stop())
  return server
}

async function busySlots(server: RealServer): Promise<number> {
  const { text } = await ask(`${server.url}/slots`)
  const slots = JSON.parse(text) as readonly { readonly is_processing: boolean }[]
  return slots.filter((slot) => slot.is_processing).length
}

/** The same request twice; during the second answer its server is killed. */
async function killedInTheMiddle(
  server: RunningServer,
  servers: readonly RealServer[],
  tokens: number,
): Promise<{ readonly expected: string; readonly seen: string }> {
  const wish = { max_tokens: tokens, ignore_eos: true }
  let expected = ''
  for await (const piece of pieces(server.url, wish)) expected += piece
  let seen = ''
  let count = 0
  for await (const piece of pieces(server.url, wish)) {
    seen += piece
    if (++count !== 20) continue
    const busy = await Promise.all(servers.map(busySlots))
    expect(busy.reduce((sum, slots) => sum + slots)).toBe(1)
    await servers[busy.indexOf(1)]?.kill()
  }
  return { expected, seen }
}

async function direct(server: RealServer): Promise<string> {
  return (await chat(server.url)).choices[0]?.message.content ?? ''
}

const asking = (content: string): object => ({ messages: [{ role: 'user', content }] })

describe.skipIf(llamaServerBinary().kind === 'missing')('llama-server', () => {
  it('gateway with two servers - same answer as from the server itself, and its cached tokens are reported', async () => {
    const [a, b] = [await llama(), await llama()]
    const server = await baton(['--upstream', `${a.url},${b.url}`])
    const expected = await direct(a)
    const replies = [await chat(server.url), await chat(server.url)]
    expect(replies.map(({ choices }) => choices[0]?.message.content)).toEqual([expected, expected])
    expect(replies[1]?.usage.prompt_tokens_details?.cached_tokens).toBeGreaterThan(0)
  })

  it("a model file that Baton cannot read - is served with the server's tokenizer; characters and migration are exact", async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-model-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const copy = path.join(folder, 'model.gguf')
    copyFileSync(GGUF, copy)
    const both = [await llama(['-m', copy]), await llama(['-m', copy])]
    rmSync(copy)
    const [first] = both as [RealServer, RealServer]
    const server = await baton(['--upstream', both.map(({ url }) => url).join(',')])
    expect(server.printed()).not.toContain('is passed through')
    const reply = await chat(server.url, { logprobs: true, top_logprobs: 2 })
    expect(reply.choices[0]?.message.content).toBe(await direct(first))
    const story = { ...asking(`Say it: 你好, Привет 🙂! ${STORY} <|im_end|>`), max_tokens: 20 }
    const seen = await chat(server.url, story)
    expect(seen.usage.prompt_tokens).toBeGreaterThan(40)
    const guided = {
      response_format: {
        type: 'json_schema',
        json_schema: { name: 'x', schema: { const: 'a🙂é你 Привет b' } },
      },
    }
    const shaped = (await chat(server.url, guided)).choices[0]?.message.content ?? ''
    expect(JSON.parse(shaped)).toBe('a🙂é你 Привет b')
    const stopped = await chat(server.url, { stop: ['fox'] })
    expect(stopped.choices[0]?.message.content).not.toContain('fox')
    const { expected, seen: text } = await killedInTheMiddle(server, both, 400)
    expect(text).toBe(expected)
  })

  it('a server with --chat-template-file - chats are rendered with it, and a server with the usual template does not serve beside it', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-template-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const file = path.join(folder, 'own.jinja')
    writeFileSync(
      file,
      "{% for m in messages %}{{ '<|im_start|>' + m['role'] + ': ' + m['content'] + '<|im_end|>' }}{% endfor %}{{ 'Once' }}\n",
    )
    const own = await llama(['--chat-template-file', file])
    const alone = await baton(['--upstream', own.url])
    expect((await chat(alone.url)).choices[0]?.message.content).toBe(await direct(own))
    expect(alone.printed()).toMatch(/another template .* rendered with the engine's/)
    const usual = await llama()
    expect(await direct(usual)).not.toBe(await direct(own))
    const both = await baton(['--upstream', `${own.url},${usual.url}`])
    const { text } = await ask(`${both.url}/health`)
    const { models, warnings } = JSON.parse(text) as {
      readonly warnings: readonly string[]
      readonly models: readonly { readonly workers: readonly unknown[] }[]
    }
    expect(models.map(({ workers }) => workers.length)).toEqual([1])
    expect(warnings.join()).toMatch(/chat template \w+ instead of \w+/)
  })

  it('separate prefill and decode, KV in slot files - same tokens, and no file remains', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-slots-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const flags = ['--slot-save-path', folder]
    const [p, d] = [await llama(flags), await llama(flags)]
    const server = await baton([
      '--upstream',
      `prefill=${p.url},decode=${d.url}`,
      '--slot-save-path',
      folder,
      '--enforce-disagg',
    ])
    const long = 'The fox went through the forest and met a bear. '.repeat(60) + STORY
    const alone = await llama()
    for (const [words, wish] of [
      [STORY, {}],
      [long, {}],
      [long, { stop: ['forest'] }],
    ] as const) {
      const messages = [{ role: 'user', content: words }]
      const expected = await chat(alone.url, { messages, ...wish })
      const seen = await chat(server.url, { messages, ...wish })
      expect(seen.choices[0]?.message.content).toBe(expected.choices[0]?.message.content)
      expect(seen.usage.completion_tokens).toBeGreaterThan(0)
    }
    expect(readdirSync(folder)).toEqual([])
    const [{ disaggregation }] = await modelsOf(server)
    expect(disaggregation).toMatchObject({ requests: 3, disaggregated: 3 })
    // The decode server computed almost nothing of the prompts.
    const computed = (await ask(`${d.url}/metrics`)).text
    const tokens = Number(/^llamacpp:prompt_tokens_total (\d+)/m.exec(computed)?.[1])
    console.log(`the decode server computed ${tokens} prompt tokens of three prompts`)
    expect(tokens).toBeLessThan(30)
  })

  it('separate prefill and decode in forward mode, whole and streamed - same text, almost nothing computed twice', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-slots-'))
    open.push(() => rmSync(folder, { recursive: true }))
    const flags = ['--slot-save-path', folder]
    const [p, d] = [await llama(flags), await llama(flags)]
    const server = await baton([
      '--upstream',
      `prefill=${p.url},decode=${d.url}`,
      '--forward',
      '--slot-save-path',
      folder,
      '--enforce-disagg',
    ])
    const alone = await llama()
    const long = 'The fox went through the forest and met a bear. '.repeat(60) + STORY
    const wish = asking(long)
    const expected = (await chat(alone.url, wish)).choices[0]?.message.content
    const whole = await chat(server.url, wish)
    let streamed = ''
    // Without usage a stream does not report the cached tokens.
    const told = { ...wish, max_tokens: 64, stream_options: { include_usage: true } }
    for await (const piece of pieces(server.url, told)) streamed += piece
    expect([whole.choices[0]?.message.content, streamed]).toEqual([expected, expected])
    expect(whole.usage.prompt_tokens_details?.cached_tokens).toBeGreaterThan(600)
    expect(readdirSync(folder)).toEqual([])
    const computed = (await ask(`${d.url}/metrics`)).text
    const tokens = Number(/^llamacpp:prompt_tokens_total (\d+)/m.exec(computed)?.[1])
    console.log(`passed through: the decode server computed ${tokens} prompt tokens of two prompts`)
    expect(tokens).toBeLessThan(30)
    // The last leg is counted when it ends, which may be after the client has its answer.
    await until('both legs are counted', async () =>
      (await ask(`${server.url}/health`)).text.includes('in 2 of 2 decode legs'),
    )
  })

  it('a client that disconnects - its slot is free in less than 50 ms', async () => {
    const real = await llama()
    const server = await baton(['--upstream', real.url])
    const times: number[] = []
    for (let round = 0; round < 5; round++) {
      const leaving = new AbortController()
      const stream = pieces(server.url, { max_tokens: 3500, ignore_eos: true }, leaving.signal)
      for (let i = 0; i < 3; i++) await stream.next()
      expect(await busySlots(real)).toBe(1)
      const leftMs = performance.now()
      leaving.abort()
      await until('the slot is free', async () => (await busySlots(real)) === 0)
      times.push(performance.now() - leftMs)
    }
    console.log(`cancel freed the slot after ${times.map((ms) => ms.toFixed(1)).join(', ')} ms`)
    expect(Math.min(...times)).toBeLessThan(50)
  })

  it('kill -9 of a server during an answer - the other server continues it exactly', async () => {
    const both = [await llama(), await llama()]
    const server = await baton(['--upstream', both.map(({ url }) => url).join(',')])
    const { expected, seen } = await killedInTheMiddle(server, both, 600)
    expect(seen).toBe(expected)
    // The dead server gets no more requests.
    await until('one is left', async () => (await modelsOf(server))[0].workers.length === 1)
  })

  it('engine conformance kit - passes on the adapter', async () => {
    const real = await llama()
    const report = await runConformance(
      () =>
        new UpstreamEngine({ url: real.url, clock: osClock, mode: 'agg', startDeadlineMs: 5000 }),
      { clock: osClock, promptTokenIds: [1, 562, 272, 207, 1144, 2, 207, 1, 412, 289, 324, 207] },
    )
    expect(describeFailures(report)).toBe('')
    expect(report.passed).toBe(true)
  })

  it('sidecar worker and separate frontend - same answer; the worker ends with its engine', async () => {
    const folder = mkdtempSync(path.join(tmpdir(), 'baton-fleet-'))
    open.push(() => rmSync(folder, { recursive: true, force: true }))
    const real = await llama()
    const expected = await direct(real)
    const fleet = ['--discovery-dir', folder]
    const worker = await startBaton(
      ['worker', '--engine', 'llama-server', '--engine-url', real.url, ...fleet],
      /"kind":"ready"/,
    )
    open.push(() => worker.process.kill('SIGKILL'))
    const frontend = await startBaton(['frontend', '--port', '0', ...fleet], /http:\/\/[\d.]+:\d+/)
    open.push(() => frontend.process.kill('SIGKILL'))
    const url = /http:\/\/[\d.]+:\d+/.exec(frontend.printed())?.[0] ?? ''
    let answer: string | undefined
    await until('it is served', async () => {
      answer = await chat(url).then(
        ({ choices }) => choices[0]?.message.content,
        () => undefined,
      )
      return answer !== undefined
    })
    expect(answer).toBe(expected)
    // The server reports neither block size nor KV events, so routing assumes that sent prompts are cached.
    expect((await ask(`${url}/health`)).text).not.toContain('routing without KV')
    await real.kill()
    await worker.ended
  })
})
