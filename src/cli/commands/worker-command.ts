/**
 * `baton worker`: one engine as a member of a fleet, in a process of its own.
 */
import { BatonError } from '../../base/index.ts'
import { createLogger, exitCodeOf, runWorkerInRoles, runWorkerProcess } from '../../host/index.ts'
import type {
  HostedWorkerOptions,
  TracesOfWorkers,
  WorkerProcessOptions,
} from '../../host/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { createEngine } from '../engines/create-engine.ts'
import type { CreatedEngine } from '../engines/create-engine.ts'
import { modeOfSidecar } from '../engines/sidecar-engine.ts'
import { hostedOptions } from '../compose/hosted-options.ts'
import { workerTraces } from '../compose/trace-settings.ts'
import { openDiscovery } from '../compose/open-discovery.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'
import { parseHostAndPort } from '../options/option-values.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { watchCertificates } from '../guard/watch-certificates.ts'
import { openWireWarning, wireSecurity } from '../guard/wire-security.ts'

export async function runWorker(options: readonly ResolvedOption[]): Promise<number> {
  const config = serveConfig(options)
  refuseHidden(config)
  const isModeGiven = options.some(
    ({ option, source }) => option.key === 'mode' && source !== 'default',
  )
  // A foreign server may have a fixed role; then its role is used.
  const given = isModeGiven ? config.mode : ((await modeOfSidecar(config)) ?? config.mode)
  const security = wireSecurity(config)
  const warning = openWireWarning(config.workerHost, security)
  // For a worker with a parent process the parent prints the warnings once for all workers.
  const isAlone = process.send === undefined
  if (warning !== null && isAlone) console.error(warning)
  const log = createLogger(config.logLevel)
  watchCertificates(
    [security.tls],
    log,
    isAlone ? (_, text) => text !== null && log.warn(text) : undefined,
  )
  const first = given === 'auto' ? 'decode' : given
  const created = await engineOrReport(config, first)
  if (created instanceof BatonError) return exitCodeOf(created)
  const traces = await workerTraces(config)
  const exitCode =
    given === 'auto'
      ? await runWorkerInRoles(first, enginesInTurn(config, created, traces))
      : await runWorkerProcess(processOptions(config, first, created, traces))
  await traces?.close()
  // An engine that hangs would keep the process alive. A sidecar that has lost its engine has set an exit code.
  process.exit(exitCode === 0 ? process.exitCode : exitCode)
}

/**
 * With `static:` or `kubernetes:` discovery a worker does not register itself; on a random port nobody would
 * find it and it would wait for ever.
 */
function refuseHidden({ discovery, workerPort }: ServeConfig): void {
  const kind = discovery?.kind
  if (workerPort !== 0 || (kind !== 'static' && kind !== 'kubernetes')) return
  const inPod = kind === 'kubernetes' ? ' (the container port named baton)' : ''
  const text = `--discovery ${kind}: workers are found by their address: give this one a fixed port with --worker-port${inPod}`
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

/** The first engine exists already; each further role gets a new engine. */
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

/** A worker with a parent process reports an error to its parent, and only the parent prints it. */
async function engineOrReport(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<CreatedEngine | BatonError> {
  try {
    return await createEngine(config, mode)
  } catch (thrown) {
    const error = BatonError.from(thrown)
    if (process.send === undefined) throw error
    await new Promise((resolve) => {
      process.send?.({ kind: 'failed', error: error.toValue() }, resolve)
    })
    process.disconnect()
    return error
  }
}

function adminOf(config: ServeConfig): Pick<HostedWorkerOptions, 'admin'> {
  const { workerHost: host, adminPort: port, adminToken: token } = config
  if (port === null) return {}
  return { admin: { host, port, ...(token === null ? {} : { token }) } }
}
