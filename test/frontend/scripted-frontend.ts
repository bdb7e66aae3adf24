/**
 * A frontend in which everything is real except the router and the engine: a scripted service behind the router's
 * interface plays a reply token by token and records the requests.
 */
import { readFileSync } from 'node:fs'
import { BatonError, seededRandom, workerIdOf } from '../../src/base/index.ts'
import type { WorkerId } from '../../src/base/index.ts'
import { Frontend } from '../../src/frontend/index.ts'
import type {
  FrontendEvent,
  FrontendLimits,
  FrontendOptions,
  HttpReply,
  RequestEnd,
  RequestFacts,
} from '../../src/frontend/index.ts'
import { finishChunk } from '../../src/request/index.ts'
import type {
  Chunk,
  EngineConfig,
  GenerateRequest,
  ReplySink,
  RequestService,
  WorkerCard,
} from '../../src/request/index.ts'
import type { DecisionRecord, ModelRouter, RouterStatus } from '../../src/router/index.ts'
import { modelTextFromHuggingFace } from '../../src/text/index.ts'
import type { ModelText } from '../../src/text/index.ts'
import { VirtualClock } from '../../src/sim/index.ts'

const FOLDER = new URL('../../models/storyteller/', import.meta.url)

function modelJson(name: string): unknown {
  return JSON.parse(readFileSync(new URL(name, FOLDER), 'utf8'))
}

let text: ModelText | undefined

export function storyteller(): ModelText {
  text ??= modelTextFromHuggingFace({
    tokenizer: modelJson('tokenizer.json'),
    tokenizerConfig: modelJson('tokenizer_config.json'),
    config: modelJson('config.json'),
    generationConfig: modelJson('generation_config.json'),
  })
  return text
}

export const WORKER = workerIdOf(9007199254740993n)
export const PREFILL_WORKER = workerIdOf(18446744073709551615n)

export function card(engine: Partial<EngineConfig> = {}, workerId: WorkerId = WORKER): WorkerCard {
  return {
    workerId,
    mode: 'agg',
    host: '127.0.0.1',
    port: 1,
    engine: { model: 'storyteller', contextLength: 4096, ...engine },
    engineName: 'scripted',
    publishesKvEvents: false,
    version: '0.1.0',
  }
}

/** What the service does with the n-th request. */
export type Script = (run: ScriptRun, nth: number) => void

export class ScriptRun {
  readonly request: GenerateRequest
  readonly sink: ReplySink
  readonly cancels: ('stop' | 'kill')[] = []

  constructor(request: GenerateRequest, sink: ReplySink) {
    this.request = request
    this.sink = sink
  }

  routed(workerId: WorkerId = WORKER, phase: 'aggregated' | 'prefill' | 'decode' = 'aggregated') {
    this.sink.onPhase?.({
      kind: 'routed',
      phase,
      workerId,
      dpRank: 0,
      overlapBlocks: 1,
      promptBlocks: 4,
      queuedMs: 0,
      decisionMs: 0,
      atMs: 0,
    })
    return this
  }

  tokens(ids: ArrayLike<number>) {
    for (const id of Array.from(ids)) this.sink.onToken(id)
    return this
  }

  /** The tokens of a text, one per step. */
  says(words: string) {
    return this.tokens(storyteller().tokenizer.encode(words, { special: true }))
  }

  chunk(chunk: Chunk) {
    this.sink.onChunk(chunk)
    return this
  }

  ends(
    finish: Parameters<typeof finishChunk>[0] = 'eos',
    rest: Parameters<typeof finishChunk>[1] = {},
  ) {
    this.sink.onChunk(finishChunk(finish, rest))
    return this
  }

  fails(code: BatonError['code'], message = 'it broke', data: BatonError['data'] = {}) {
    this.sink.onError(new BatonError(code, message, { data }))
    return this
  }
}

export interface ScriptedOptions {
  readonly script?: Script
  readonly limits?: Partial<FrontendLimits>
  readonly engine?: Partial<EngineConfig>
  readonly options?: Partial<FrontendOptions>
  /** No worker joins. */
  readonly empty?: boolean
  readonly canServe?: () => boolean
}

const STATUS = {
  disaggregation: { state: 'disabled', unpaired: null },
  warnings: [],
  selfCheck: [],
} as unknown as RouterStatus

export class ScriptedFrontend {
  readonly clock = new VirtualClock()
  readonly runs: ScriptRun[] = []
  readonly ends: (RequestEnd & RequestFacts)[] = []
  readonly migrations: unknown[] = []
  readonly events: FrontendEvent[] = []
  readonly frontend: Frontend
  /** Decisions by request id. */
  readonly decisions = new Map<string, readonly DecisionRecord[]>()
  script: Script

  /** Requests wait in the router. */
  hasWaiting = false

  /** Events of the router before it sends anything. */
  refusal: BatonError | null = null

  constructor(options: ScriptedOptions = {}) {
    this.script = options.script ?? ((run) => void run.routed().says('Once').ends())
    this.frontend = new Frontend({
      clock: this.clock,
      random: seededRandom(1),
      createRouter: () => this.#router(options.canServe),
      loadText: () => Promise.resolve(storyteller()),
      observer: (event, request) => {
        this.events.push(event)
        if (event.kind === 'ended') this.ends.push({ ...request, ...event })
        if (event.kind === 'migrated') this.migrations.push(event)
      },
      ...(options.limits === undefined ? {} : { limits: options.limits }),
      ...options.options,
    })
    if (options.empty !== true) this.frontend.registry.workerJoined(card(options.engine))
  }

  get requests(): GenerateRequest[] {
    return this.runs.map((run) => run.request)
  }

  post(path: string, body: unknown, headers: Record<string, string> = {}): Promise<Answer> {
    const bytes = typeof body === 'string' ? body : JSON.stringify(body)
    return this.send('POST', path, { body: bytes, headers })
  }

  chat(fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) {
    return this.post(
      '/v1/chat/completions',
      { model: 'storyteller', messages: [{ role: 'user', content: 'hi' }], ...fields },
      headers,
    )
  }

  completion(fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) {
    return this.post('/v1/completions', { model: 'storyteller', prompt: 'hi', ...fields }, headers)
  }

  get(path: string): Promise<Answer> {
    return this.send('GET', path, {})
  }

  async send(
    method: string,
    path: string,
    rest: {
      query?: string
      body?: string | Uint8Array
      headers?: Record<string, string>
      signal?: AbortSignal
    },
  ): Promise<Answer> {
    const body = rest.body ?? ''
    const reply = await this.frontend.handle({
      method,
      path,
      query: rest.query ?? '',
      headers: { 'content-type': 'application/json', ...rest.headers },
      body: typeof body === 'string' ? new TextEncoder().encode(body) : body,
      signal: rest.signal ?? new AbortController().signal,
    })
    return new Answer(reply)
  }

  #router(canServe: (() => boolean) | undefined): ModelRouter {
    const service: RequestService = {
      send: (request, sink) => {
        const run = new ScriptRun(request, sink)
        this.runs.push(run)
        this.script(run, this.runs.length - 1)
        return { cancel: (kind) => void run.cancels.push(kind) }
      },
    }
    let thresholds = {}
    const workers = new Set<string>()
    return {
      service,
      fleet: {
        workerJoined: ({ workerId }) => void workers.add(workerId),
        workerLeft: (workerId) => void workers.delete(workerId),
        kvEvents() {},
        load() {},
      },
      hasWaiting: () => this.hasWaiting,
      canServeRequests: canServe ?? (() => workers.size > 0),
      refusalAtOnce: () => this.refusal,
      goalsOf: ({ goals }) => goals,
      explain: (requestId) => this.decisions.get(requestId) ?? null,
      status: () => STATUS,
      busyThresholds: () => thresholds,
      setBusyThresholds: (update) => (thresholds = { ...thresholds, ...update }),
      learn() {},
      tellPeers() {},
      close() {},
    }
  }
}

/** A reply; for a stream all events written so far. */
export class Answer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly writes: string[] = []
  ended = false

  constructor(reply: HttpReply) {
    this.status = reply.status
    this.headers = reply.headers
    if (typeof reply.body === 'string') this.body = reply.body
    else if (reply.body instanceof Uint8Array) this.body = new TextDecoder().decode(reply.body)
    else {
      this.body = ''
      reply.body.open({
        write: (chunk, ascii) => {
          // oxlint-disable-next-line no-control-regex -- the promise is about all of ASCII
          if (ascii && !/^[\u0000-\u007f]*$/.test(chunk)) throw new Error(`not ASCII: ${chunk}`)
          if (this.ended) throw new Error('written after the end')
          this.writes.push(chunk)
        },
        end: () => {
          this.ended = true
        },
      })
    }
  }

  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into JSON of any shape
  get json(): any {
    return JSON.parse(this.body)
  }

  get sse(): string {
    return this.writes.join('')
  }

  /** The parsed `data` of all events; `[DONE]` stays text. */
  // oxlint-disable-next-line typescript/no-explicit-any -- tests look into JSON of any shape
  get events(): any[] {
    return this.sse
      .split('\n\n')
      .map((event) => event.split('\n').find((line) => line.startsWith('data: ')))
      .filter((line) => line !== undefined)
      .map((line) => line.slice('data: '.length))
      .map((data) => (data === '[DONE]' ? data : JSON.parse(data)))
  }

  /** The concatenated text of one choice. */
  text(index = 0): string {
    return this.events
      .filter((event) => event !== '[DONE]')
      .flatMap((event) => event.choices ?? [])
      .filter((choice) => choice.index === index)
      .map((choice) => choice.delta?.content ?? choice.text ?? '')
      .join('')
  }
}
