/** The upstreams of `baton serve --upstream`: each is a worker of this process, whose engine runs at an address. */
import { BatonError, sleep, workerIdOf } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import type { Discovery } from '../../discovery/index.ts'
import type { FleetNote } from '../../frontend/index.ts'
import { createLogger, HostedWorker, loadModelText, workerLog } from '../../host/index.ts'
import type { LoadedModelText } from '../../host/index.ts'
import type { LocalRequestPlane } from '../../network/index.ts'
import { osClock } from '../../os/index.ts'
import { hashToBigint, xxh3Text } from '../../kv/index.ts'
import {
  parseUpstreamUrl,
  UpstreamEngine,
  UpstreamFleet,
  UpstreamSource,
  upstreamKey,
} from '../../upstream/index.ts'
import type {
  ForwardEngine,
  ForwardPlane,
  RemoteTexts,
  UpstreamEngineOptions,
  UpstreamEvent,
  UpstreamKind,
  UpstreamSpec,
  UpstreamWorker,
} from '../../upstream/index.ts'
import {
  engineOptions,
  findKind,
  forwardEngine,
  tellFault,
  upstreamClient,
} from '../engines/upstream-parts.ts'
import type { Fleet } from './fleet.ts'
import type { FrontendStack } from './frontend-stack.ts'
import { hostedOptions } from './hosted-options.ts'
import { forwardingOf } from '../options/serve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { namedUpstreams } from '../options/upstream-options.ts'

const RETRY_MS = 1000
const LIST_EVERY_MS = 2000
/** Milliseconds to wait for a server that is loading its model; after that it is tried again later. */
const GATEWAY_START_MS = 5000
const IDLE_POLL_MS = 100

interface Planes {
  readonly texts: RemoteTexts
  readonly local: LocalRequestPlane
  readonly forward: ForwardPlane
}

/** Sets the `/health` warning of an upstream; null removes it. */
type Note = (upstream: string, note: FleetNote | null) => void

/** All upstreams of a gateway; each is a worker of this process. */
class GatewayFleet {
  readonly #config: ServeConfig
  readonly #planes: Planes
  readonly #discovery: Discovery
  readonly #fleet: UpstreamFleet
  readonly #source: UpstreamSource
  readonly #texts = new Map<string, Promise<LoadedModelText>>()
  readonly #note: Note

  constructor(config: ServeConfig, planes: Planes, discovery: Discovery, note: Note) {
    this.#config = config
    this.#planes = planes
    this.#discovery = discovery
    this.#note = note
    this.#fleet = new UpstreamFleet({
      start: (spec, onLost) => this.#start(spec, onLost),
      onEvent: (event) => tellEvent(event, note),
      retryMs: RETRY_MS,
    })
    this.#source = new UpstreamSource({
      given: namedUpstreams(config.upstream),
      everyMs: LIST_EVERY_MS,
      onList: (list) => this.#fleet.setList(list),
      onFault: (error) => console.error(`baton: upstreams: ${BatonError.from(error).message}`),
      ...(config.upstreamFile === null ? {} : { filePath: config.upstreamFile }),
    })
  }

  get counts(): { readonly named: number; readonly up: number } {
    return this.#fleet.counts
  }

  /** Resolves when every upstream has been tried once. Upstreams that do not answer are retried without end. */
  async start(): Promise<void> {
    await this.#source.start()
    await this.#fleet.tried()
  }

  async stop(): Promise<void> {
    this.#source.close()
    await this.#fleet.close()
  }

  async #start(spec: UpstreamSpec, onLost: (error: BatonError) => void): Promise<UpstreamWorker> {
    const found = await findKind(spec, this.#config)
    const mode = spec.mode ?? found.mode ?? 'agg'
    const hosted = hostedOptions({ ...this.#config, graceSeconds: 0 })
    const log = workerLog(createLogger(this.#config.logLevel))
    const workerId = workerIdOfUpstream(spec)
    const workerOf = (engine: UpstreamEngine | ForwardEngine): HostedWorker =>
      new HostedWorker({
        ...hosted,
        engineName: found.kind,
        engine,
        engineTemplate: () => engine.chatTemplate,
        mode,
        workerId,
        plane: { kind: 'local', plane: this.#planes.local },
        discovery: this.#discovery,
        observe: (event) => {
          log(event)
          if (event.kind === 'engine-away') this.#tellAway(spec, event.error?.message ?? null)
        },
      })
    const shown = parseUpstreamUrl(spec.url).text
    const onNote = (note: string): void => console.error(`baton: upstream ${shown} ${note}`)
    const parts = { kind: found.kind, mode, onLost, onNote }
    const passing = (): ForwardEngine =>
      forwardEngine(this.#config, { ...parts, client: upstreamClient(spec, this.#config) })
    const isPassed = forwardingOf(this.#config, 'local')?.hasTokenizer === false
    const tokens = isPassed ? null : this.#tokenEngine(spec, parts)
    let engine = tokens ?? passing()
    let worker = workerOf(engine)
    let removeTarget = this.#planes.forward.addTarget(workerId, engine.target)
    try {
      await worker.start().catch(async (thrown: unknown) => {
        const passedOn = passing()
        const hasSlots = passedOn.target.slots !== undefined
        // These servers can transfer KV for requests in this form.
        const isDivided = found.kind === 'vllm' || found.kind === 'sglang' || hasSlots
        if (tokens?.lacksText !== true || (mode !== 'agg' && !isDivided)) throw thrown
        this.#tellPassThrough(spec, thrown)
        removeTarget = this.#planes.forward.addTarget(workerId, passedOn.target)
        engine = passedOn
        worker = workerOf(passedOn)
        await worker.start()
      })
    } catch (error) {
      removeTarget()
      throw error
    }
    const isIdle = (): boolean =>
      worker.worker.health().inFlight === 0 && engine.target.client.runs === 0
    return {
      leave: () => worker.worker.setWanted(false),
      rejoin: () => worker.worker.setWanted(true),
      idle: async () => {
        while (!isIdle()) await sleep(osClock, IDLE_POLL_MS)
      },
      stop: async () => {
        for (const kind of OF_A_LIFE) this.#note(noteName(spec, kind), null)
        removeTarget()
        // Requests that are still running there would only wait for a dead server.
        await worker.stop({ inflightMs: 0, kvTransferMs: 0 })
      },
    }
  }

  #tellPassThrough(spec: UpstreamSpec, thrown: unknown): void {
    const text = `requests to upstream ${parseUpstreamUrl(spec.url).text} are forwarded unchanged: ${BatonError.from(thrown).message}; until this is fixed Baton's parsers, token limits and migration do not apply to them`
    this.#tell(spec, 'forwarded-unchanged', text)
  }

  /** In the log, and in `/health` until the worker of the upstream ends. */
  #tell(spec: UpstreamSpec, kind: (typeof OF_A_LIFE)[number], text: string): void {
    this.#note(noteName(spec, kind), { kind, text })
    console.error(`baton: ${text}`)
  }

  /** `why` null: the upstream answers again. */
  #tellAway(spec: UpstreamSpec, why: string | null): void {
    const shown = parseUpstreamUrl(spec.url).text
    const text =
      why === null
        ? `upstream ${shown} answers again`
        : `upstream ${shown} gets no new requests until it answers: ${why}`
    this.#note(shown, why === null ? null : { kind: 'upstream-away', text })
    console.error(`baton: ${text}`)
  }

  #tokenEngine(
    spec: UpstreamSpec,
    parts: Pick<UpstreamEngineOptions, 'mode' | 'onLost' | 'onNote'> & {
      readonly kind: UpstreamKind
    },
  ): UpstreamEngine {
    const shown = parseUpstreamUrl(spec.url).text
    return new UpstreamEngine({
      ...engineOptions(this.#config, (path) => this.#textOf(path)),
      ...parts,
      url: spec.url,
      ...(spec.hostName === undefined ? {} : { hostName: spec.hostName }),
      remoteTexts: this.#planes.texts,
      onFault: tellFault,
      onUnusedEvents: (note) => this.#tell(spec, 'kv-events-unused', `upstream ${shown} ${note}`),
      startDeadlineMs: GATEWAY_START_MS,
    })
  }

  /** Upstreams of the same model share its tokenizer. */
  #textOf(path: string): Promise<LoadedModelText> {
    const known = this.#texts.get(path)
    if (known !== undefined) return known
    const loading = loadModelText(path)
    this.#texts.set(path, loading)
    loading.catch(() => this.#texts.delete(path))
    return loading
  }
}

/** The part of `baton serve` that replaces its own workers. Throws `config.invalid`. */
export function gatewayFleet(
  config: ServeConfig,
  stack: FrontendStack,
  discovery: Discovery,
): Fleet {
  const { local, forward, texts } = stack.planes
  if (local === null || forward === null) throw new BatonError('runtime.internal', 'no local plane')
  const gateway = new GatewayFleet(
    config,
    { local, forward, texts: texts.atEngines },
    discovery,
    (upstream, note) => stack.note(upstream, note),
  )
  return {
    // Upstreams that are not up yet are added when they answer.
    get workers() {
      return gateway.counts.up
    },
    start: () => gateway.start(),
    stop: () => gateway.stop(),
    kill: () => undefined,
  }
}

/** The same in every gateway and after every restart. Below 2^53, so that no JSON parser loses a digit. */
function workerIdOfUpstream(spec: UpstreamSpec): WorkerId {
  const [low, high] = xxh3Text(upstreamKey(spec))
  return workerIdOf(hashToBigint(low, high) & ((1n << 53n) - 1n))
}

/** Warnings about an upstream that serves. */
const OF_A_LIFE = ['forwarded-unchanged', 'kv-events-unused'] as const

function noteName({ url }: UpstreamSpec, kind: string): string {
  return `${parseUpstreamUrl(url).text} ${kind}`
}

function tellEvent(event: UpstreamEvent, note: Note): void {
  const shown = parseUpstreamUrl(event.spec.url).text
  switch (event.kind) {
    case 'up':
      note(shown, null)
      console.log(`upstream ${shown} serves`)
      return
    case 'not-up':
    case 'lost': {
      const text = `upstream ${shown} ${event.kind === 'lost' ? 'is lost' : 'does not answer'}: ${event.error.message}`
      note(shown, { kind: 'upstream-away', text })
      console.error(`baton: ${text}; trying again`)
      return
    }
    case 'removed':
      note(shown, null)
      console.log(`upstream ${shown} was removed from the list`)
  }
}
