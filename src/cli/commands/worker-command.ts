/**
 * `baton worker`: one engine as a member of a fleet, in a process of its own.
 */
import { BatonError } from '../../base/index.ts'
import { EXIT_FAILED, runWorkerInRoles, runWorkerProcess } from '../../host/index.ts'
import type {
  HostedWorkerOptions,
  TracesOfWorkers,
  WorkerProcessOptions,
} from '../../host/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { createEngine } from '../compose/create-engine.ts'
import type { CreatedEngine } from '../compose/create-engine.ts'
import { modeOfSidecar } from '../compose/upstream-engines.ts'
import { hostedOptions } from '../compose/hosted-options.ts'
import { workerTraces } from '../compose/trace-settings.ts'
import { openDiscovery } from '../compose/open-discovery.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'
import { parseHostAndPort } from '../options/option-values.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { openWireWarning, wireSecurity } from '../guard/wire-security.ts'

export async function runWorker(options: readonly ResolvedOption[]): Promise<number> {
  const config = serveConfig(options)
  refuseHidden(config)
  const isModeGiven = options.some(
    ({ option, source }) => option.key === 'mode' && source !== 'default',
  )
  // A server that has a role of its own says so.
  const given = isModeGiven ? config.mode : ((await modeOfSidecar(config)) ?? config.mode)
  const security = wireSecurity(config)
  const warning = openWireWarning(config.workerHost, security)
  // The parent of a worker says it once for all.
  if (warning !== null && process.send === undefined) console.error(warning)
  const first = given === 'auto' ? 'decode' : given
  const created = await engineOrReport(config, first)
  if (created === null) return EXIT_FAILED
  const traces = await workerTraces(config)
  const exitCode =
    given === 'auto'
      ? await runWorkerInRoles(first, enginesInTurn(config, created, traces))
      : await runWorkerProcess(processOptions(config, first, created, traces))
  await traces?.close()
  // An engine that hangs would keep the process alive.
  process.exit(exitCode)
}

/** It registers nowhere there: on a port that nobody knows it would wait for ever. */
function refuseHidden({ discovery, workerPort }: ServeConfig): void {
  const kind = discovery?.kind
  if (workerPort !== 0 || (kind !== 'static' && kind !== 'kubernetes')) return
  const inPod = kind === 'kubernetes' ? ', which is the container port named baton' : ''
  const text = `--discovery ${kind}: finds a worker by its address: give it a port of its own with --worker-port${inPod}`
  throw new BatonError('config.invalid', text)
}

function processOptions(
  config: ServeConfig,
  mode: DisaggregationMode,
  created: CreatedEngine,
  traces: TracesOfWorkers | null,
): WorkerProcessOptions {
  return {
    ...hostedOptions(config),
    ...created,
    mode,
    ...wireSecurity(config),
    host: config.workerHost,
    port: config.workerPort,
    ...(config.workerAdvertise === null
      ? {}
      : { advertised: parseHostAndPort(config.workerAdvertise) }),
    discovery: openDiscovery(config),
    logLevel: config.logLevel,
    ...(traces === null ? {} : { traces }),
    ...adminOf(config),
  }
}

/** The first engine is there; every further role gets one of its own. */
function enginesInTurn(
  config: ServeConfig,
  first: CreatedEngine,
  traces: TracesOfWorkers | null,
): (role: DisaggregationMode) => Promise<WorkerProcessOptions> {
  let next: CreatedEngine | null = first
  return async (role) => {
    const created = next ?? (await createEngine(config, role))
    next = null
    return processOptions(config, role, created, traces)
  }
}

/** A worker that somebody started tells its parent what is wrong, and only the parent prints it. */
async function engineOrReport(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<CreatedEngine | null> {
  try {
    return await createEngine(config, mode)
  } catch (thrown) {
    const error = BatonError.from(thrown)
    if (process.send === undefined) throw error
    await new Promise((resolve) => {
      process.send?.({ kind: 'failed', error: error.toValue() }, resolve)
    })
    process.disconnect()
    return null
  }
}

function adminOf(config: ServeConfig): Pick<HostedWorkerOptions, 'admin'> {
  const { workerHost: host, adminPort: port, adminToken: token } = config
  if (port === null) return {}
  return { admin: { host, port, ...(token === null ? {} : { token }) } }
}
