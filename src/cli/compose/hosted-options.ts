/**
 * The options of a hosted worker, the same in its own process and in the frontend's process.
 */
import { openKvTcp } from '../../network/index.ts'
import type { HostedWorkerOptions } from '../../host/index.ts'
import { isModulePath, parseHostAndPort } from '../options/option-values.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { describedBy, userEngineName } from '../engines/load-user-engine.ts'
import { BATON_VERSION } from './version.ts'
import { wireSecurity } from '../guard/wire-security.ts'

export function hostedOptions(
  config: ServeConfig,
): Pick<
  HostedWorkerOptions,
  | 'engineName'
  | 'describe'
  | 'version'
  | 'openKv'
  | 'limits'
  | 'runtimeData'
  | 'shutdown'
  | 'taints'
  | 'topology'
  | 'weight'
  | 'modelVersion'
> {
  const { reasoningParser, toolCallParser, taints, topology, weight, modelVersion } = config
  const security = wireSecurity(config)
  return {
    engineName: isModulePath(config.engine) ? userEngineName(config.engine) : config.engine,
    ...describeOf(config),
    version: BATON_VERSION,
    openKv: (mode) =>
      openKvTcp(mode, {
        host: config.workerHost,
        port: config.kvPort,
        ...advertisedKv(config),
        checksum: config.kvChecksums,
        ...security,
      }),
    limits: {
      kvFailure: config.kvFailure,
      startTimeoutMs: config.startTimeoutSeconds * 1000,
      ...stallLimit(config),
    },
    shutdown: {
      totalMs: (config.graceSeconds + config.drainSeconds) * 1000,
      routerGraceMs: config.graceSeconds * 1000,
    },
    ...(taints === null ? {} : { taints: taints.split(',') }),
    ...(topology === null ? {} : { topology: domainsOf(topology) }),
    ...(weight === null ? {} : { weight }),
    ...(modelVersion === null ? {} : { modelVersion }),
    runtimeData: {
      ...(reasoningParser === null ? {} : { reasoning_parser: reasoningParser }),
      ...(toolCallParser === null ? {} : { tool_call_parser: toolCallParser }),
    },
  }
}

/** What the operator's options add to the engine's description of itself. */
function describeOf(config: ServeConfig): Pick<HostedWorkerOptions, 'describe'> {
  const { pace } = config
  const own = isModulePath(config.engine) ? describedBy(config) : undefined
  if (pace === null) return own === undefined ? {} : { describe: own }
  return { describe: (engine) => ({ ...(own?.(engine) ?? engine), pace }) }
}

function stallLimit(config: ServeConfig): { readonly stallTimeoutMs?: number } {
  if (config.stallTimeoutSeconds !== null) {
    return { stallTimeoutMs: config.stallTimeoutSeconds * 1000 }
  }
  // Each request at a foreign server has its own deadlines; such a server may compute for long without sending anything.
  return isUpstream(config) ? { stallTimeoutMs: Infinity } : {}
}

function isUpstream({ engineUrl, upstream, upstreamFile }: ServeConfig): boolean {
  return engineUrl !== null || upstream !== null || upstreamFile !== null
}

/** The address that decode workers connect to for KV. */
function advertisedKv({
  kvAdvertise,
  workerAdvertise,
}: Pick<ServeConfig, 'kvAdvertise' | 'workerAdvertise'>): {
  readonly advertisedHost?: string
  readonly advertisedPort?: number
} {
  if (kvAdvertise !== null) {
    const { host: advertisedHost, port: advertisedPort } = parseHostAndPort(kvAdvertise)
    return { advertisedHost, ...(advertisedPort === undefined ? {} : { advertisedPort }) }
  }
  return workerAdvertise === null ? {} : { advertisedHost: parseHostAndPort(workerAdvertise).host }
}

function domainsOf(pairs: string): Readonly<Record<string, string>> {
  return Object.fromEntries(
    pairs.split(',').map((pair) => pair.split('=') as [domain: string, value: string]),
  )
}
