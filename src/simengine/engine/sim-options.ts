/** The options of a simulated engine, and their validated form. */
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

/** A fault injected into one request, for tests. `atToken`: number of tokens generated before it. */
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
  /** Prompt and output together, in tokens. Default 8192. */
  readonly contextLength?: number
  readonly dataParallelSize?: number
  /** Seed of the output tokens. Default 0. */
  readonly seed?: number
  /** Token ids that can be generated. Default [1000, 2000). */
  readonly tokenRange?: TokenChoice
  /** Output length of a request without a maximum; it then ends with `eos`. Default 128. */
  readonly defaultOutputTokens?: number
  /** The exact output tokens of a request; undefined: pseudo-random ones. */
  readonly scriptFor?: (request: GenerateRequest) => ArrayLike<number> | undefined
  /**
   * The output of a request with structured output; absent: such requests are refused. Used if `scriptFor` returns
   * nothing.
   */
  readonly guidedScript?: (request: GenerateRequest) => ArrayLike<number>
  readonly reasoning?: SimReasoning
  /**
   * Turns end by themselves, and some call a tool (needs `guidedScript`); except for turns with structured output, a
   * script or `ignoreEos`. Absent: only a limit or a stop token ends an output.
   */
  readonly turns?: SimTurnsOptions
  /** Dimension of an embedding. Default 128. */
  readonly embeddingLength?: number
  /**
   * A prefill worker listens on this port (0: any free one), and decode of its prompts starts on another worker while
   * they are computed: both legs meet in a bootstrap room. Needs `bootstrap`.
   */
  readonly bootstrapPort?: number
  /** How long one side waits for the other in a bootstrap room, in milliseconds. Default 300000. */
  readonly handOffTimeoutMs?: number
  /** Implementation of bootstrap rooms; room `host` has one with sockets. */
  readonly bootstrap?: SimBootstrap
  /**
   * KV events are published in vLLM's format, for rank r on this port + r (0: any free ports); not by decode workers.
   * Needs `kvBroadcast`.
   */
  readonly kvEventsPort?: number
  /** Missed batches of rank r can be requested on this port + r. */
  readonly kvReplayPort?: number
  /** Format of the events. Default `array`. */
  readonly kvEventsForm?: KvEventsForm
  /** Publishes them; room `host` has an implementation over ZeroMQ. */
  readonly kvBroadcast?: SimKvBroadcast
  /** For the simulator, whose time stands still between timers: one timer for many steps. */
  readonly ahead?: StepAhead
  /** Called when a step begins; its argument is only valid during the call. */
  readonly onStep?: (step: SimStep<unknown>, dpRank: number) => void
  readonly startupMs?: number
  /** Minimum duration of a drain. */
  readonly drainMs?: number
  readonly failStart?: ErrorCode
  readonly faultFor?: (request: GenerateRequest) => SimFault | undefined
  /** `request.extra.simFault` may inject a fault; only for tests. */
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
  if (options.model === '')
    throw new BatonError('config.invalid', 'model is invalid: expected a name, got an empty text')
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
