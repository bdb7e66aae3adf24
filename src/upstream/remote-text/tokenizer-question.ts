/**
 * A frontend's question about a tokenizer that only a worker's engine has, and the answer, over any request plane:
 * the question travels in `extra` of a request without tokens, the answer in `engineData` of its last chunk.
 *
 * Owns: both ends of that. Neither trusts the other's message.
 */
import { randomUUID } from 'node:crypto'
import { BatonError, isRecord } from '../../base/index.ts'
import type { Clock, WorkerId } from '../../base/index.ts'
import { finishChunk } from '../../request/index.ts'
import type { Chunk, GenerateRequest, RequestPlane } from '../../request/index.ts'
import type { RemoteEncodeOptions, RemoteSource, RemoteToken } from './remote-source.ts'
import { parseDescription } from './text-description.ts'
import type { TextDescription } from './text-description.ts'
import type { JoinedText } from './remote-texts.ts'

const KEY = 'tokenizer'
const DEADLINE_MS = 15_000
const MALFORMED = "a worker's answer about its tokenizer is malformed"

export type TokenizerQuestion =
  | { readonly ask: 'describe' }
  | { readonly ask: 'encode'; readonly text: string; readonly options: RemoteEncodeOptions }
  | { readonly ask: 'decode'; readonly ids: readonly number[] }

/** The question to a worker; null: the request is an ordinary one. Throws `transport.protocol`. */
export function tokenizerQuestionOf({ extra }: GenerateRequest): TokenizerQuestion | null {
  const question = extra?.[KEY]
  if (question === undefined) return null
  const { ask, text, options, ids } = isRecord(question) ? question : {}
  if (ask === 'describe') return { ask }
  if (ask === 'encode' && typeof text === 'string' && isRecord(options)) {
    const { special, addBos } = options
    return { ask, text, options: { special: special === true, addBos: addBos === true } }
  }
  if (ask === 'decode' && Array.isArray(ids) && ids.every(Number.isInteger)) return { ask, ids }
  throw new BatonError('transport.protocol', 'the question about the tokenizer is malformed')
}

/** The worker's end. */
export async function answeredQuestion(
  question: TokenizerQuestion,
  { description, source }: JoinedText,
): Promise<Chunk> {
  switch (question.ask) {
    case 'describe':
      return answerChunk({ description })
    case 'encode':
      return answerChunk(encodedAnswer(await source.encode(question.text, question.options)))
    case 'decode':
      return answerChunk({ text: await source.decode(question.ids) })
  }
}

function answerChunk(answer: Readonly<Record<string, unknown>>): Chunk {
  return finishChunk('stop', { engineData: { [KEY]: answer } })
}

/** The bytes of a token once, however often it occurs in the text. */
function encodedAnswer(tokens: readonly RemoteToken[]): Readonly<Record<string, unknown>> {
  const pieces = new Map<number, Uint8Array>()
  for (const { id, bytes } of tokens) if (bytes !== null) pieces.set(id, bytes)
  return { ids: tokens.map(({ id }) => id), pieces: [...pieces] }
}

interface WorkerTokenizerOptions {
  readonly plane: RequestPlane
  readonly clock: Clock
  /** Workers that have the tokenizer now; asked one after the other until one answers. */
  readonly workers: () => readonly WorkerId[]
  readonly model: string
}

/** The frontend's end. */
export class WorkerTokenizer implements RemoteSource {
  readonly knowsPlainText: boolean
  readonly #options: WorkerTokenizerOptions

  constructor(options: WorkerTokenizerOptions, knowsPlainText: boolean) {
    this.#options = options
    this.knowsPlainText = knowsPlainText
  }

  async encode(text: string, options: RemoteEncodeOptions): Promise<readonly RemoteToken[]> {
    const { ids, pieces } = await askWorkers(this.#options, { ask: 'encode', text, options })
    if (!Array.isArray(ids) || !Array.isArray(pieces)) throw malformed()
    const bytesOf = new Map<number, Uint8Array>()
    for (const piece of pieces) {
      const [id, bytes]: readonly unknown[] = Array.isArray(piece) ? piece : []
      if (typeof id === 'number' && bytes instanceof Uint8Array) bytesOf.set(id, bytes)
    }
    return ids.map((id: unknown) => {
      if (typeof id !== 'number' || !Number.isInteger(id) || id < 0) throw malformed()
      return { id, bytes: bytesOf.get(id) ?? null }
    })
  }

  async decode(ids: readonly number[]): Promise<string> {
    const { text } = await askWorkers(this.#options, { ask: 'decode', ids })
    if (typeof text !== 'string') throw malformed()
    return text
  }
}

/** Rejects when no worker answers. */
export async function askDescription(options: WorkerTokenizerOptions): Promise<TextDescription> {
  const { description } = await askWorkers(options, { ask: 'describe' })
  return parseDescription(description)
}

async function askWorkers(
  options: WorkerTokenizerOptions,
  question: TokenizerQuestion,
): Promise<Readonly<Record<string, unknown>>> {
  let failure = new BatonError(
    'backend.worker_unavailable',
    'no worker with the tokenizer of the model is registered',
    { data: { model: options.model } },
  )
  for (const workerId of options.workers()) {
    try {
      return await askWorker(options, workerId, question)
    } catch (thrown) {
      failure = BatonError.from(thrown)
    }
  }
  throw failure
}

function askWorker(
  { plane, clock, model }: WorkerTokenizerOptions,
  workerId: WorkerId,
  question: TokenizerQuestion,
): Promise<Readonly<Record<string, unknown>>> {
  return new Promise((resolve, reject) => {
    const request: GenerateRequest = {
      requestId: `tokenizer-${randomUUID()}`,
      model,
      tokenIds: new Uint32Array(0),
      sampling: {},
      stop: {},
      output: {},
      eosTokenIds: [],
      routing: {},
      extra: { [KEY]: question },
    }
    const end = clock.after(DEADLINE_MS, () => {
      reject(
        new BatonError('backend.response_timeout', `worker ${workerId} did not answer in time`),
      )
      handle.cancel('kill')
    })
    const handle = plane.send(workerId, request, {
      onToken: () => undefined,
      onChunk: ({ finish, engineData }) => {
        if (finish === undefined) return
        end.cancel()
        const answer = isRecord(engineData) ? engineData[KEY] : undefined
        if (isRecord(answer)) resolve(answer)
        else reject(malformed())
      },
      onError: (error) => {
        end.cancel()
        reject(error)
      },
    })
  })
}

function malformed(): BatonError {
  return new BatonError('transport.protocol', MALFORMED)
}
