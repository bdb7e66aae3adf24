/** `baton bench` against servers of other projects: refusals, silence, broken answers, and Ctrl-C in the middle. */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { laboratoryCommands } from './laboratory-commands.ts'
import { startBaton } from './running-server.ts'

const { at, baton } = laboratoryCommands()

const closing: (() => void)[] = []
afterEach(() => {
  for (const close of closing.splice(0)) close()
})

interface Asked {
  readonly path: string
  readonly body: Readonly<Record<string, unknown>>
  readonly session: unknown
  readonly priority: unknown
  /** Counted from 0. */
  readonly index: number
}

const MODELS = '{"data":[{"id":"strange"}]}'
const ANSWER = 'data: {"choices":[{"text":"a"}]}\n\ndata: {"choices":[{"text":"b"}]}\n\n'
const DONE = 'data: [DONE]\n\n'

/** `answer` gets everything except the list of models. */
async function otherServer(
  answer: (asked: Asked, response: ServerResponse) => void,
  models: (response: ServerResponse) => void = (response) => response.end(MODELS),
): Promise<string> {
  let index = 0
  const server = createServer((request: IncomingMessage, response) => {
    if (request.url === '/v1/models') {
      models(response)
      return
    }
    let text = ''
    request.on('data', (bytes: Buffer) => (text += bytes.toString()))
    request.on('end', () => {
      const body = JSON.parse(text) as Asked['body']
      const { 'x-session-id': session, 'x-dynamo-request-priority': priority } = request.headers
      answer({ path: request.url ?? '', body, session, priority, index: index++ }, response)
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  closing.push(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

const LOAD = ['workload:random,requests=6,rate=100,input=20,output=2', '--json', '-']

interface Report {
  readonly facts: readonly string[]
  readonly runs: readonly {
    readonly report: {
      readonly requests: number
      readonly completed: number
      readonly outputTokens: number
      readonly good: number
      readonly failed: Readonly<Record<string, number>>
    }
  }[]
}

/** Also of a command that ends with 1. */
async function reportOf(...args: string[]): Promise<Report['runs'][number]['report']> {
  const ended = await baton('bench', ...args).catch((error: unknown) => error)
  const { stdout } = ended as { stdout: string }
  return (JSON.parse(stdout) as Report).runs[0]!.report
}

describe('baton bench against other servers', () => {
  it.each([
    [500, 'backend.unknown'],
    [401, 'request.unauthenticated'],
    [429, 'capacity.exhausted'],
  ])('every second request is answered with %d - the others are measured', async (status, code) => {
    const url = await otherServer(({ index }, response) => {
      if (index % 2 === 0) response.writeHead(status).end('<html>no</html>')
      else response.end(ANSWER + DONE)
    })
    const report = await reportOf(url, ...LOAD)
    expect(report).toMatchObject({ requests: 6, completed: 3, failed: { [code]: 3 }, good: 0.5 })
  })

  it('no usage - every event counts as a token; an answer cut off in the middle is a failure', async () => {
    const url = await otherServer(({ index }, response) => {
      response.writeHead(200, { 'content-type': 'text/event-stream' })
      if (index === 0) response.write(ANSWER, () => response.destroy())
      else response.end(ANSWER + DONE)
    })
    const report = await reportOf(url, ...LOAD)
    expect(report).toMatchObject({ completed: 5, outputTokens: 10 })
    expect(report.failed).toEqual({ 'backend.stream_incomplete': 1 })
  })

  it('a server that never answers, or stops in the middle - the requests fail after --timeout', async () => {
    const url = await otherServer(({ index }, response) => {
      if (index === 0) return
      if (index === 1) response.write(ANSWER)
      else response.end(ANSWER + DONE)
    })
    const report = await reportOf(url, ...LOAD, '--timeout', '4')
    expect(report).toMatchObject({ completed: 4, failed: { 'backend.response_timeout': 2 } })
  })

  it('a list of models that needs a key - the message of the server', async () => {
    const url = await otherServer(
      () => undefined,
      (response) => response.writeHead(401).end('{"detail":"invalid API key"}'),
    )
    const refused = await baton('bench', url, ...LOAD).catch((error: unknown) => error)
    expect(refused).toMatchObject({
      exitCode: 1,
      stderr: expect.stringContaining('/v1/models is refused: invalid API key'),
    })
  })

  it('fields that a server refuses - are left out from then on', async () => {
    const bodies: Asked['body'][] = []
    const url = await otherServer(({ body }, response) => {
      bodies.push(body)
      const odd = ['ignore_eos', 'stream_options'].find((field) => field in body)
      if (odd === undefined) response.end(ANSWER + DONE)
      else response.writeHead(422).end(`{"detail":[{"loc":["body","${odd}"],"msg":"forbidden"}]}`)
    })
    const report = await reportOf(url, ...LOAD, '--concurrency', '1')
    expect(report).toMatchObject({ completed: 6, failed: {} })
    expect(bodies).toHaveLength(8)
  })

  it('--chat - sends words to /v1/chat/completions and reads deltas', async () => {
    const asked: Asked[] = []
    const url = await otherServer((each, response) => {
      asked.push(each)
      const delta = (text: string): string =>
        `data: ${JSON.stringify({ choices: [{ delta: { content: text } }] })}\n\n`
      response.end(delta('') + delta('a') + delta('b') + delta('c') + DONE)
    })
    expect(await reportOf(url, ...LOAD, '--chat')).toMatchObject({ completed: 6, outputTokens: 18 })
    expect(asked[0]).toMatchObject({
      path: '/v1/chat/completions',
      body: { messages: [{ role: 'user', content: expect.stringMatching(/^\w+( \w+)*$/) }] },
    })
  })

  it('sessions and priorities of a trace - are sent as headers, with other ids in every run', async () => {
    const asked: Asked[] = []
    const url = await otherServer((each, response) => {
      asked.push(each)
      response.end(ANSWER + DONE)
    })
    const lines = [
      { timestamp: 0, input_length: 9, output_length: 2, session_id: 'a', priority: 3 },
      { delay: 1, input_length: 9, output_length: 2, session_id: 'a' },
    ]
    writeFileSync(at('sessions.jsonl'), lines.map((line) => JSON.stringify(line)).join('\n'))
    await baton('bench', url, at('sessions.jsonl'), '--direct', url, '--quiet')
    expect(asked.map(({ priority }) => priority)).toEqual(['3', undefined, '3', undefined])
    const [first, second, third] = asked.map(({ session }) => session)
    expect(first).toMatch(/^a-/)
    expect(second).toBe(first)
    expect(third).not.toBe(first)
  })

  it('a rate that the client cannot send - the report says so', async () => {
    const url = await otherServer((_, response) => response.end(ANSWER + DONE))
    const load = 'workload:random,requests=1500,rate=100000,input=20,output=2'
    const { stdout } = await baton('bench', url, load)
    expect(stdout).toContain('the client was too slow for this rate')
  })

  it('Ctrl-C in the middle - a report of what has ended, and exit code 130', async () => {
    let arrived = (): void => undefined
    const hanging = new Promise<void>((resolve) => (arrived = resolve))
    const url = await otherServer(({ index }, response) => {
      if (index < 3) response.end(ANSWER + DONE)
      else arrived()
    })
    const running = await startBaton(['bench', url, ...LOAD, '--concurrency', '1'], /(?:)/)
    await hanging
    running.process.kill('SIGINT')
    expect(await running.ended).toBe(130)
    const { facts, runs } = JSON.parse(running.printed()) as Report
    expect(facts.join()).toContain('the 3 of 6 requests that had ended')
    expect(runs[0]!.report).toMatchObject({ requests: 3, completed: 3, failed: {}, good: 1 })
  })
})
