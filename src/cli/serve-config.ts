/**
 * The finished configuration: typed, contradictions refused. Inner rooms see only this.
 */
import { fileURLToPath } from 'node:url'
import { BatonError } from '../base/index.ts'
import type { MockEngineOptions } from '../engine/index.ts'
import { refuseContradictions } from './contradictions.ts'
import type { OptionKey } from './option-table.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { simSettings } from './sim-settings.ts'

export interface ServeConfig {
  readonly model: string
  readonly servedModelName: string | null
  readonly contextLength: number | null
  readonly reasoningParser: string | null
  readonly toolCallParser: string | null
  readonly engine: 'llamacpp' | 'sim'
  readonly sequences: number
  readonly batchSize: number
  readonly threads: number
  readonly gpu: 'off' | 'auto' | 'cuda' | 'vulkan' | 'metal'
  readonly gpuLayers: number
  readonly kvStoreBytes: number
  readonly prefill: number
  readonly decode: number
  readonly aggregated: number
  readonly inProcess: boolean
  readonly discoveryDir: string | null
  readonly workerHost: string
  readonly kvFailure: 'recompute' | 'fail'
  readonly taints: string | null
  readonly topology: string | null
  readonly adminPort: number | null
  readonly adminToken: string | null
  readonly wireSecret: string | null
  readonly tlsCert: string | null
  readonly tlsKey: string | null
  readonly tlsCa: string | null
  readonly kvTransport: 'auto' | 'tcp' | 'shm'
  readonly kvShmDir: string
  readonly host: string
  readonly port: number
  readonly bodyLimit: number
  readonly migrationLimit: number
  /** Of the simulated engine; null: another engine runs. */
  readonly sim: MockEngineOptions | null
  readonly drainSeconds: number
  readonly graceSeconds: number
  readonly logLevel: 'silent' | 'error' | 'warn' | 'info' | 'debug'
}

const SHIPPED_MODEL = fileURLToPath(
  new URL('../../models/storyteller/storyteller-q8_0.gguf', import.meta.url),
)

/** Throws `config.invalid` in one line that names the options that contradict each other. */
export function serveConfig(options: readonly ResolvedOption[]): ServeConfig {
  refuseContradictions(options)
  const values = Object.fromEntries(options.map(({ option, value }) => [option.key, value]))
  return {
    // The values have passed their schemas; a field without an option does not compile.
    ...(values as Record<OptionKey, never>),
    model: (values['model'] as string | null) ?? SHIPPED_MODEL,
    ...topologyOf(options),
    sim: values['engine'] === 'sim' ? simSettings(options) : null,
  }
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
      '--prefill without --decode: nobody would generate; add --decode 1',
    )
  }
  if (prefillCount === 0 && decodeCount === 0) {
    throw new BatonError(
      'config.invalid',
      'no worker at all: use --aggregated 1, or --prefill 1 --decode 1',
    )
  }
  return { prefill: prefillCount, decode: decodeCount, aggregated: 0 }
}
