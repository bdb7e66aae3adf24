/** `--engine ./mine.js`: a user's engine in worker processes and in the frontend's process. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'
import { startServer } from './running-server.ts'

const batons = new BatonsInTurn()
afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})

const folder = mkdtempSync(join(tmpdir(), 'baton-user-engine-'))
const DOOR = new URL('../dist/lib/engine.js', import.meta.url).href

afterAll(() => rmSync(folder, { recursive: true, force: true }))

function file(name: string, content: string): string {
  const path = join(folder, name)
  writeFileSync(path, content)
  return path
}

/** Repeats the same text, as token ids or as text. */
const PARROT = `
import { finishChunk, sleep, textChunk, usageOf } from ${JSON.stringify(DOOR)}
export default class Parrot {
  #options
  constructor(options) { this.#options = options }
  async start() { return { model: 'parrot', contextLength: 512 } }
  async *generate(request, context) {
    const tokens = request.stop.maxTokens ?? 4
    for (let count = 0; count < tokens; count++) {
      await sleep(this.#options.clock, 1)
      if (context.isStopped) return yield finishChunk('cancelled')
      yield textChunk(this.#options.args.word)
    }
    yield finishChunk('length', { usage: usageOf(request.tokenIds.length, tokens) })
  }
  async cleanup() {}
}
`

async function chat(url: string, model: string) {
  const reply = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      model,
      messages: [{ role: 'user', content: 'Hello' }],
      max_tokens: 3,
    }),
  })
  return (await reply.json()) as {
    choices: { message: { content: string }; finish_reason: string }[]
    usage: { completion_tokens: number }
  }
}

describe('baton serve --engine ./mine.js', () => {
  it.each([[[]], [['--in-process']]])("a user's engine - serves requests (%j)", async (more) => {
    const path = file('parrot.js', more.length === 0 ? PARROT : PARROT.replace('default ', ''))
    const args = ['--engine', path, '--engine-args', '{"word":"ah "}', '--aggregated', '1']
    const server = await startServer([...args, '--served-model-name', 'polly', ...more])
    try {
      const reply = await chat(server.url, 'polly')
      expect(reply.choices[0]).toMatchObject({
        message: { content: 'ah ah ah ' },
        finish_reason: 'length',
      })
      expect(reply.usage.completion_tokens).toBe(3)
      expect(server.printed()).toContain('parrot')
    } finally {
      expect(await server.stop()).toBe(0)
    }
  })

  it('it names no features - fields that it would ignore are refused by name', async () => {
    const args = ['--engine', file('parrot.js', PARROT), '--engine-args', '{"word":"ah "}']
    const server = await startServer([...args, '--aggregated', '1'])
    const schema = { type: 'object', properties: { a: { type: 'integer' } }, required: ['a'] }
    const tool = { type: 'function', function: { name: 'f', parameters: { type: 'object' } } }
    const asked = [
      ['logprobs', { logprobs: true, top_logprobs: 1 }],
      ['seed', { seed: 1 }],
      ['logit_bias', { logit_bias: { 40: 100 } }],
      [
        'response_format',
        {
          response_format: {
            type: 'json_schema',
            json_schema: { name: 'a', strict: true, schema },
          },
        },
      ],
      ['tool_choice', { tools: [tool], tool_choice: 'required' }],
    ] as const
    try {
      for (const [param, fields] of asked) {
        const messages = [{ role: 'user', content: 'Hello' }]
        const reply = await fetch(`${server.url}/v1/chat/completions`, {
          method: 'POST',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ model: 'parrot', messages, max_tokens: 3, ...fields }),
        })
        const error = { code: 'unsupported_parameter', param }
        expect([reply.status, await reply.json()]).toMatchObject([400, { error }])
      }
    } finally {
      expect(await server.stop()).toBe(0)
    }
  })

  it('its last load report names requests that are gone - the next request is served', async () => {
    const report =
      '{ dpRank: 0, activeBlocks: 5, totalBlocks: 9, runningRequests: 1, queuedRequests: 20, prefillTokensInFlight: 0 }'
    const reporting = PARROT.replace(
      'async *generate',
      'observe(observer) { this.observer = observer }\n  async *generate',
    ).replace('const tokens =', `this.observer.load(${report}); const tokens =`)
    const args = ['--engine', file('reporting.js', reporting), '--engine-args', '{"word":"ah "}']
    const server = await startServer([...args, '--aggregated', '1'])
    try {
      // The router holds requests back for 30 s at most.
      for (let i = 0; i < 2; i++) {
        const reply = await chat(server.url, 'parrot')
        expect(reply.choices[0]?.message.content).toBe('ah ah ah ')
      }
    } finally {
      expect(await server.stop()).toBe(0)
    }
  })

  it.each([[[]], [['--in-process']]])(
    'unhandled errors of the engine (%j) - the process keeps running and the log names the engine',
    async (more) => {
      const imports =
        "import { connect } from 'node:net'\nimport { readFile } from 'node:fs/promises'\n"
      const strays = `
        void Promise.reject(new Error('stray rejection'))
        void Promise.reject('stray text')
        setTimeout(() => { throw new Error('stray timer') }, 0)
        setTimeout(() => { throw Object.create(null) }, 0)
        void Promise.reject(Object.defineProperty(new Error(), 'message', { get() { throw 1 } }))
        void Promise.reject(new Proxy({}, { getPrototypeOf() { throw new Error('trap') } }))
        connect(9, '127.0.0.1')
        void readFile('/does/not/exist')
        const tokens =`
      const path = file('stray.js', imports + PARROT.replace('const tokens =', strays))
      const args = ['--engine', path, '--engine-args', '{"word":"ah "}', '--aggregated', '1']
      const server = await startServer([...args, ...more])
      try {
        for (let i = 0; i < 3; i++) {
          const reply = await chat(server.url, 'parrot')
          expect(reply.choices[0]?.message.content).toBe('ah ah ah ')
        }
        await expect.poll(server.printed).toContain('stray rejection')
        await expect.poll(server.printed).toContain('unhandled error of the engine')
        expect(server.printed()).not.toContain('internal error')
        expect(server.printed()).not.toMatch(/worker .* (died|ended)/)
      } finally {
        expect(await server.stop()).toBe(0)
      }
    },
  )

  it('an error with a code - reaches the client with that code', async () => {
    const refuses = PARROT.replace('finishChunk,', 'BatonError, finishChunk,').replace(
      'const tokens =',
      "throw new BatonError('backend.invalid_argument', 'too loud'); const tokens =",
    )
    const args = ['--engine', file('refuses.js', refuses), '--aggregated', '1']
    const server = await startServer(args)
    try {
      const body = JSON.stringify({ model: 'parrot', prompt: 'Hello', max_tokens: 3 })
      const headers = { 'content-type': 'application/json' }
      const reply = await fetch(`${server.url}/v1/completions`, { method: 'POST', headers, body })
      expect(reply.status).toBe(400)
      expect(await reply.json()).toMatchObject({
        error: { code: 'backend.invalid_argument', message: 'too loud' },
      })
    } finally {
      expect(await server.stop()).toBe(0)
    }
  })

  it.each([
    ['no such file', () => './nowhere.js', /the file does not exist/],
    ['a module that does not load', () => file('a.js', 'export default ('), /cannot be loaded/],
    ['no default export', () => file('b.js', 'export const engine = 1'), /default export/],
    [
      'what is not an engine',
      () => file('c.js', 'export default () => ({ start() {}, cleanup() {} })'),
      /'generate' is missing/,
    ],
    [
      'a factory that throws',
      () => file('d.js', 'export default () => { throw new Error("no device 3") }'),
      /failed to make an engine: no device 3/,
    ],
    [
      'a name that is none',
      () => 'simm',
      /--engine: "simm" .*expected one of .* or the path of a module/,
    ],
  ])('%s - one sentence, and no process is started', async (_name, path, said) => {
    const { exitCode, printed } = await batons.run(['serve', '--port', '0', '--engine', path()])
    expect(printed).toMatch(said)
    expect(printed.trim().split('\n')).toHaveLength(1)
    expect(exitCode).not.toBe(0)
  })

  it.each([
    ['no such model', () => join(folder, 'nowhere'), /nowhere does not exist/],
    [
      'a damaged tokenizer',
      () => {
        const model = mkdtempSync(join(folder, 'model-'))
        writeFileSync(join(model, 'tokenizer.json'), '{"a": 1,')
        return model
      },
      /tokenizer\.json is not valid JSON|tokenizer\.json/,
    ],
  ])(
    '%s - is refused in one sentence: its tokenizer could not be compared',
    async (_, path, said) => {
      const engine = file('parrot.js', PARROT)
      const args = ['serve', '--port', '0', '--engine', engine, '--model', path()]
      const { printed, exitCode } = await batons.run(args)
      expect(printed).toMatch(said)
      expect(printed.trim().split('\n')).toHaveLength(1)
      expect(exitCode).not.toBe(0)
    },
  )

  it.each([
    [['--engine', 'sim', '--engine-args', '{}'], /--engine-args has no effect with --engine sim/],
    [['--engine', './x.js', '--threads', '2'], /--threads has no effect with --engine \.\/x\.js/],
    [['--engine', './x.js', '--engine-args', '[1]'], /--engine-args is invalid/],
  ])('%j - is refused', async (args, said) => {
    const { printed, exitCode } = await batons.run(['serve', '--port', '0', ...args])
    expect(printed).toMatch(said)
    expect(exitCode).not.toBe(0)
  })
})
