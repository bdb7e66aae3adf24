import { describe, expect, it } from 'vitest'
import { BatonError, workerIdOf } from '../../base/index.ts'
import type { Clock } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { GenerateRequest, ReplySink, RequestPlane } from '../../request/index.ts'
import { parseDescription } from './text-description.ts'
import { askDescription, tokenizerQuestionOf, WorkerTokenizer } from './tokenizer-question.ts'

const A = workerIdOf(1)
const B = workerIdOf(2)
const OPTIONS = { special: false, addBos: false }
const TEXT = {
  vocabSize: 8,
  bosTokenId: null,
  eosTokenIds: [2],
  addedTokens: [{ id: 2, text: '<|end|>', control: true }],
  template: 'x',
  bosToken: null,
  eosToken: '<|end|>',
  contextLength: 64,
  knowsPlainText: true,
}

type Answer = (request: GenerateRequest, sink: ReplySink) => void

/** A plane with two workers; a timer fires at once when nobody has answered. */
function fleet(answers: readonly [Answer, Answer]): {
  readonly options: ConstructorParameters<typeof WorkerTokenizer>[0]
  readonly killed: string[]
} {
  const killed: string[] = []
  const plane: RequestPlane = {
    send: (workerId, request, sink) => {
      answers[workerId === A ? 0 : 1](request, sink)
      return { cancel: (kind) => killed.push(`${kind} ${workerId}`) }
    },
    close: () => Promise.resolve(),
  }
  const clock: Clock = {
    nowMs: () => 0,
    epochMs: () => 0,
    after: (_ms, fire) => {
      const timer = setImmediate(fire)
      return { cancel: () => clearImmediate(timer) }
    },
  }
  return { options: { plane, clock, workers: () => [A, B], model: 'm' }, killed }
}

const answering =
  (answer: unknown): Answer =>
  (_request, sink) =>
    sink.onChunk(finishChunk('stop', { engineData: { tokenizer: answer } }))
const failing: Answer = (_request, sink) =>
  sink.onError(new BatonError('backend.worker_unavailable', 'gone'))
const silent: Answer = () => undefined

describe('a question about a tokenizer', () => {
  it.each([
    ['describe', { ask: 'describe' }],
    ['encode', { ask: 'encode', text: 'a', options: OPTIONS }],
    ['decode', { ask: 'decode', ids: [1, 2] }],
  ])('%s - is parsed as it was sent', async (_name, question) => {
    const seen: unknown[] = []
    const { options } = fleet([
      (request, sink) => {
        seen.push(tokenizerQuestionOf(request))
        failing(request, sink)
      },
      failing,
    ])
    const tokenizer = new WorkerTokenizer(options, true)
    const asked = {
      describe: () => askDescription(options),
      encode: () => tokenizer.encode('a', OPTIONS),
      decode: () => tokenizer.decode([1, 2]),
    }[question.ask as 'describe' | 'encode' | 'decode']
    await expect(asked()).rejects.toMatchObject({ code: 'backend.worker_unavailable' })
    expect(seen).toEqual([question])
  })

  it.each([
    null,
    7,
    {},
    { ask: 'other' },
    { ask: 'encode', text: 5 },
    { ask: 'decode', ids: ['x'] },
  ])('%j - is refused by the worker', (question) => {
    const request = { extra: { tokenizer: question } } as unknown as GenerateRequest
    expect(() => tokenizerQuestionOf(request)).toThrow(/malformed/)
  })

  it('an ordinary request - is not a question', () => {
    expect(tokenizerQuestionOf({ extra: { outputReplayId: 'x' } } as never)).toBeNull()
    expect(tokenizerQuestionOf({} as never)).toBeNull()
  })

  it('a worker fails - the next one answers', async () => {
    const { options } = fleet([failing, answering({ text: 'ok' })])
    expect(await new WorkerTokenizer(options, true).decode([1])).toBe('ok')
  })

  it('no worker answers - each times out in turn, and the caller gets an error', async () => {
    const { options, killed } = fleet([silent, silent])
    await expect(new WorkerTokenizer(options, true).decode([1])).rejects.toMatchObject({
      code: 'backend.response_timeout',
    })
    expect(killed).toEqual([`kill ${A}`, `kill ${B}`])
  })

  it.each([
    null,
    {},
    { ids: 5, pieces: [] },
    { ids: ['x'], pieces: [] },
    { ids: [-1], pieces: [] },
    { ids: [1.5], pieces: [] },
    { ids: [1] },
  ])('the answer %j - is refused by the frontend', async (answer) => {
    const { options } = fleet([answering(answer), answering(answer)])
    await expect(new WorkerTokenizer(options, true).encode('a', OPTIONS)).rejects.toMatchObject({
      code: 'transport.protocol',
    })
  })

  it('bytes of a token - are sent once for all its positions; null where none are known', async () => {
    const { options } = fleet([
      answering({ ids: [1, 2, 1], pieces: [[1, new Uint8Array([97])], 'x', [3]] }),
      failing,
    ])
    const tokens = await new WorkerTokenizer(options, true).encode('a', OPTIONS)
    expect(tokens.map(({ id, bytes }) => [id, bytes?.[0] ?? null])).toEqual([
      [1, 97],
      [2, null],
      [1, 97],
    ])
  })
})

describe('the description of a text side', () => {
  it('as an engine reports it - is accepted', () => {
    expect(parseDescription(TEXT)).toEqual(TEXT)
  })

  it.each([
    ['vocabSize', -1],
    ['vocabSize', 2 ** 24 + 1],
    ['eosTokenIds', [1.5]],
    ['eosTokenIds', Array.from({ length: 4097 }, () => 1)],
    ['addedTokens', [{ id: 1, text: 'x' }]],
    ['template', 7],
    ['template', 'x'.repeat(1024 ** 2 + 1)],
    ['contextLength', 'long'],
    ['knowsPlainText', undefined],
  ])('%s: %s - is refused', (field, value) => {
    expect(() => parseDescription({ ...TEXT, [field]: value })).toThrow(/malformed/)
  })

  it.each([
    ['vocabSize', 2 ** 24],
    ['eosTokenIds', Array.from({ length: 4096 }, () => 1)],
    ['template', 'x'.repeat(1024 ** 2)],
  ])('%s at its limit - is accepted', (field, value) => {
    expect(() => parseDescription({ ...TEXT, [field]: value })).not.toThrow()
  })
})
