/**
 * The finished configuration: typed and free of contradictions. Inner rooms (folders of src) see only this.
 */
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'
import { parseDiscovery } from '../../discovery/index.ts'
import type { DiscoveryAddress } from '../../discovery/index.ts'
import type { DisaggregationMode, EnginePace } from '../../request/index.ts'
import { PACKAGE_ROOT } from '../../os/index.ts'
import type { MockEngineOptions } from '../../simengine/index.ts'
import { refuseContradictions } from './contradictions.ts'
import type { OptionKey } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { paceSetting } from './pace-setting.ts'
import { simSettings } from './sim-settings.ts'

export interface ServeConfig {
  readonly model: string
  /** True when `model` was not given and the model that ships with Baton is used. */
  readonly isShippedModel: boolean
  readonly servedModelName: string | null
  readonly contextLength: number | null
  readonly reasoningParser: string | null
  readonly toolCallParser: string | null
  /** The name of an engine, or the path of a module. */
  readonly engine: string
  readonly engineArgs: string | null
  /** The text of the option; `pace` is its parsed value. */
  readonly enginePace: string | null
  /** The measured speed of the engine; null: not known. */
  readonly pace: EnginePace | null
  /** The text of the option; a list in `baton.yaml` was converted to JSON. */
  readonly upstream: string | null
  readonly upstreamFile: string | null
  readonly forward: boolean
  readonly mediaHosts: string | null
  readonly mediaLimit: number
  readonly engineUrl: string | null
  readonly engineKey: string | null
  readonly engineKvEvents: string | null
  readonly engineRequests: number
  /** Null: what the server reports. */
  readonly engineMaxNumSeqs: number | null
  readonly engineIdleSeconds: number
  readonly engineAnswerSeconds: number
  readonly slotSavePath: string | null
  readonly sequences: number
  readonly batchSize: number
  readonly threads: number
  readonly gpu: 'off' | 'auto' | 'cuda' | 'vulkan' | 'metal'
  readonly gpuLayers: number
  readonly kvStoreBytes: number
  readonly batching: 'auto' | 'exact' | 'throughput'
  readonly blockSize: number
  readonly microBatch: number
  readonly flashAttention: boolean
  readonly kvType: 'f16' | 'bf16' | 'f32' | 'q8_0' | 'q4_0'
  readonly prefill: number
  readonly decode: number
  readonly aggregated: number
  readonly inProcess: boolean
  /** Where workers register; null: `baton serve` makes a temporary folder. */
  readonly discovery: DiscoveryAddress | null
  readonly workerHost: string
  readonly kvFailure: 'recompute' | 'fail'
  /** The role of `baton worker`. */
  readonly mode: DisaggregationMode | 'auto'
  readonly ttftGoal: number
  readonly autoRoles: boolean
  readonly taints: string | null
  /** Of `baton worker`; null: not given. */
  readonly weight: number | null
  readonly modelVersion: string | null
  readonly topology: string | null
  /** Of `baton worker`; 0: any free port. */
  readonly workerPort: number
  /** Null: others connect to the address on which it listens. */
  readonly workerAdvertise: string | null
  /** Of `baton worker`; 0: any free port. */
  readonly kvPort: number
  /** Null: the host of `workerAdvertise`, and the port on which it listens. */
  readonly kvAdvertise: string | null
  readonly adminPort: number | null
  readonly adminToken: string | null
  readonly wireSecret: string | null
  readonly tlsCert: string | null
  readonly tlsKey: string | null
  readonly tlsCa: string | null
  readonly kvChecksums: boolean
  readonly wireChecksums: boolean
  readonly host: string
  readonly port: number
  readonly bodyLimit: number
  readonly unsentLimit: number
  readonly connectionsPerAddress: number
  readonly keys: string | null
  readonly insecureOpen: boolean
  readonly httpTlsCert: string | null
  readonly httpTlsKey: string | null
  readonly corsOrigin: string | null
  readonly state: string | null
  readonly stateTtlSeconds: number
  readonly filesDir: string | null
  readonly filesLimit: number
  readonly fileLimit: number
  readonly filesTtlSeconds: number
  readonly batchRequests: number
  readonly frontends: number
  readonly modelCache: string | null
  readonly otlpEndpoint: string | null
  readonly otelServiceName: string
  readonly traceSampleRatio: number
  readonly migrationLimit: number
  readonly migrationWaitSeconds: number
  readonly modelForgetSeconds: number
  /** Settings of the simulated engine; null: another engine runs. */
  readonly sim: MockEngineOptions | null
  readonly drainSeconds: number
  readonly startTimeoutSeconds: number
  /** null: the default of the kind of engine. */
  readonly stallTimeoutSeconds: number | null
  readonly graceSeconds: number
  readonly logLevel: 'silent' | 'error' | 'warn' | 'info' | 'debug'
}

const SHIPPED_MODEL = join(PACKAGE_ROOT, 'models/storyteller/storyteller-q8_0.gguf')

/** Throws `config.invalid` in one line that names the contradicting options. */
export function serveConfig(options: readonly ResolvedOption[]): ServeConfig {
  refuseContradictions(options)
  const values = Object.fromEntries(options.map(({ option, value }) => [option.key, value]))
  return {
    // The schemas have checked the values, and a field without an option does not compile.
    ...(values as Record<OptionKey, never>),
    model: (values['model'] as string | null) ?? SHIPPED_MODEL,
    isShippedModel: values['model'] === null,
    ...(isGateway({ upstream: values['upstream'], upstreamFile: values['upstreamFile'] })
      ? NO_WORKERS
      : topologyOf(options)),
    discovery: discoveryOf(options),
    pace: paceSetting((values['enginePace'] as string | null | undefined) ?? null),
    sim: values['engine'] === 'sim' ? simSettings(options) : null,
  }
}

const NO_WORKERS = { prefill: 0, decode: 0, aggregated: 0 }

/** True when engines that run elsewhere are served and no worker is started. */
export function isGateway(config: {
  readonly upstream: unknown
  readonly upstreamFile: unknown
}): boolean {
  return config.upstream !== null || config.upstreamFile !== null
}

/** The text of the option; null: not given. */
export function discoveryText(options: readonly ResolvedOption[]): string | null {
  const valueOf = (key: OptionKey) =>
    (options.find(({ option }) => option.key === key)?.value ?? null) as string | null
  const folder = valueOf('discoveryDir')
  return valueOf('discovery') ?? (folder === null ? null : `file:${folder}`)
}

function discoveryOf(options: readonly ResolvedOption[]): DiscoveryAddress | null {
  const written = discoveryText(options)
  return written === null ? null : parseDiscovery(written)
}

/**
 * Null: requests are never forwarded. Otherwise workers over TCP may also have such engines, which their cards
 * tell.
 */
export function forwardingOf(
  config: ServeConfig,
  plane: 'tcp' | 'local',
): { readonly always: boolean; readonly hasTokenizer: boolean } | null {
  if (plane === 'tcp') return { always: config.forward, hasTokenizer: true }
  if (!isGateway(config)) return null
  return { always: config.forward, hasTokenizer: !config.forward || !config.isShippedModel }
}

function topologyOf(
  options: readonly ResolvedOption[],
): Pick<ServeConfig, 'prefill' | 'decode' | 'aggregated'> {
  const given = (key: string): ResolvedOption | null => {
    const found = options.find(({ option }) => option.key === key)
    return found === undefined || found.source === 'default' ? null : found
  }
  const prefill = given('prefill')
  const decode = given('decode')
  const aggregated = given('aggregated')
  const aggregatedCount = (aggregated?.value as number | undefined) ?? 0
  if (aggregated !== null && aggregatedCount > 0) {
    const split = prefill ?? decode
    if (split !== null && split.value !== 0) {
      throw new BatonError(
        'config.invalid',
        `${aggregated.writtenAs} and ${split.writtenAs} contradict each other: choose workers that do both, or prefill and decode workers`,
      )
    }
    return { prefill: 0, decode: 0, aggregated: aggregatedCount }
  }
  const prefillCount = (prefill?.value as number | undefined) ?? 1
  const decodeCount = (decode?.value as number | undefined) ?? 1
  if (prefillCount > 0 && decodeCount === 0) {
    throw new BatonError(
      'config.invalid',
      '--prefill without --decode: no worker would decode; add --decode 1',
    )
  }
  if (prefillCount === 0 && decodeCount === 0) {
    throw new BatonError(
      'config.invalid',
      'no workers: use --aggregated 1, or --prefill 1 --decode 1',
    )
  }
  return { prefill: prefillCount, decode: decodeCount, aggregated: 0 }
}
