/**
 * What a user writes to get a simulated engine, and its finished form.
 */
import { BatonError } from '../../base/index.ts'
import type { Clock, ErrorCode } from '../../base/index.ts'
import type { DisaggregationMode, GenerateRequest } from '../../request/index.ts'
import { createSchedulerConfig } from '../scheduler/scheduler-config.ts'
import type { SchedulerConfig, SchedulerOptions } from '../scheduler/scheduler-config.ts'
import type { SimBootstrap } from './sim-bootstrap.ts'
import type { KvEventsForm, SimKvBroadcast } from './sim-kv-broadcast.ts'
import type { SimReasoning } from './sim-output.ts'
import type { SimTurnsOptions } from './sim-turns.ts'
import type { SimStep } from '../scheduler/sim-scheduler.ts'
import type { StepAhead } from '../scheduler/step-ahead.ts'
import type { TokenChoice } from './sim-tokens.ts'

/** What goes wrong with one request, for tests. `atToken` counts the tokens given out before. */
export type SimFault =
  | {
      readonly kind: 'fail'
      readonly atToken: number
      readonly code: ErrorCode
      readonly message?: string
    }
  | { readonly kind: 'hang'; readonly atToken: number }
  | { readonly kind: 'slow'; readonly restMs: number }

export interface SimEngineOptions extends SchedulerOptions {
  readonly clock: Clock
  readonly model: string
  readonly mode?: DisaggregationMode
  readonly servedModelName?: string
  readonly modelPath?: string
  /** Prompt and output together. Default 8192. */
  readonly contextLength?: number
  readonly dataParallelSize?: number
  /** Of the output tokens. Default 0. */
  readonly seed?: number
  /** Which ids may come out. Default [1000, 2000). */
  readonly tokenRange?: TokenChoice
  /** Output of a request that sets no maximum; it then ends with `eos`. Default 128. */
  readonly defaultOutputTokens?: number
  /** Exactly these tokens come out; undefined: pseudo-random ones. */
  readonly scriptFor?: (request: GenerateRequest) => ArrayLike<number> | undefined
  /** What a request that is held to a shape says; absent: such requests are refused. Counts more than `scriptFor`'s silence. */
  readonly guidedScript?: (request: GenerateRequest) => ArrayLike<number>
  readonly reasoning?: SimReasoning
  /**
   * Turns end by themselves, and some call a tool (with `guidedScript`); those that a shape, a script or `ignoreEos` holds do not.
   * Absent: only a limit or a stop token ends an output.
   */
  readonly turns?: SimTurnsOptions
  /** Numbers of an embedding. Default 128. */
  readonly embeddingLength?: number
  /**
   * A prefill worker listens here (0: any free port), and its prompts are decoded elsewhere while they are computed:
   * prefill and decode of a request meet in a bootstrap room. Needs `bootstrap`.
   */
  readonly bootstrapPort?: number
  /** How long one side waits for the other in a bootstrap room. Default 300000. */
  readonly handOffTimeoutMs?: number
  /** Opens the bootstrap rooms; room `host` has one with sockets. */
  readonly bootstrap?: SimBootstrap
  /**
   * KV events are published here as vLLM publishes them, for rank r at this port + r (0: any free ones); not those of a
   * decode worker. Needs `kvBroadcast`.
   */
  readonly kvEventsPort?: number
  /** Missed batches of rank r are asked for at this port + r. */
  readonly kvReplayPort?: number
  /** How events are written. Default `array`. */
  readonly kvEventsForm?: KvEventsForm
  /** Publishes them; room `host` has one over ZeroMQ. */
  readonly kvBroadcast?: SimKvBroadcast
  /** The driver's time stands still between timers: many steps may have one timer. For the laboratory. */
  readonly ahead?: StepAhead
  /** Hears of every step when it begins; what it is given is good during the call. */
  readonly onStep?: (step: SimStep<unknown>, dpRank: number) => void
  readonly startupMs?: number
  /** Drain takes at least this long. */
  readonly drainMs?: number
  readonly failStart?: ErrorCode
  readonly faultFor?: (request: GenerateRequest) => SimFault | undefined
  /** `request.extra.simFault` may order a fault; only for tests. */
  readonly allowRequestFaults?: boolean
}

export interface SimEngineConfig {
  readonly mode: DisaggregationMode
  readonly contextLength: number
  readonly dataParallelSize: number
  readonly defaultOutputTokens: number
  readonly embeddingLength: number
  readonly handOffTimeoutMs: number
  readonly scheduler: SchedulerConfig
}

const COUNTS = [
  'dataParallelSize',
  'defaultOutputTokens',
  'embeddingLength',
  'handOffTimeoutMs',
] as const

export function createSimEngineConfig(options: SimEngineOptions): SimEngineConfig {
  const { maxModelLength } = options
  const contextLength = Math.min(
    options.contextLength ?? maxModelLength ?? 8192,
    maxModelLength ?? Infinity,
  )
  const config = {
    mode: options.mode ?? 'agg',
    contextLength,
    dataParallelSize: options.dataParallelSize ?? 1,
    defaultOutputTokens: options.defaultOutputTokens ?? 128,
    embeddingLength: options.embeddingLength ?? 128,
    handOffTimeoutMs: options.handOffTimeoutMs ?? 300_000,
    scheduler: createSchedulerConfig({ ...options, maxModelLength: contextLength }),
  }
  if (options.model === '') throw new BatonError('config.invalid', 'the model needs a name')
  for (const name of COUNTS) {
    if (!Number.isSafeInteger(config[name]) || config[name] < 1)
      throw new BatonError('config.invalid', `${name} must be a whole number ≥ 1`)
  }
  if (options.bootstrapPort !== undefined && options.bootstrap === undefined)
    throw new BatonError('config.invalid', 'bootstrapPort needs `bootstrap`, which listens there')
  checkBroadcast(options, config.scheduler.prefixCaching)
  return config
}

function checkBroadcast(options: SimEngineOptions, prefixCaching: boolean): void {
  const { kvEventsPort, kvReplayPort, kvBroadcast } = options
  if (kvEventsPort === undefined) {
    if (kvReplayPort === undefined) return
    throw new BatonError('config.invalid', 'kvReplayPort needs kvEventsPort')
  }
  if (kvBroadcast === undefined)
    throw new BatonError('config.invalid', 'kvEventsPort needs `kvBroadcast`, which listens there')
  if (!prefixCaching)
    throw new BatonError(
      'config.invalid',
      'kvEventsPort needs prefixCaching: without it there are no KV events',
    )
}

/** The fault of a request, if it has one. */
export function faultOf(options: SimEngineOptions, request: GenerateRequest): SimFault | undefined {
  const fault = options.faultFor?.(request)
  if (fault !== undefined || options.allowRequestFaults !== true) return fault
  return request.extra?.simFault as SimFault | undefined
}
