/**
 * `baton worker`: one engine as a member of a fleet, in a process of its own.
 */
import { BatonError } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import { EXIT_FAILED, runWorkerProcess } from '../host/index.ts'
import type { HostedWorkerOptions } from '../host/index.ts'
import { parseDisaggregationMode } from '../request/index.ts'
import type { DisaggregationMode } from '../request/index.ts'
import { createEngine } from './create-engine.ts'
import { hostedOptions } from './hosted-options.ts'
import { openDiscovery } from './open-discovery.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'
import type { ServeConfig } from './serve-config.ts'
import { openWireWarning, wireSecurity } from './wire-security.ts'

export async function runWorker(
  options: readonly ResolvedOption[],
  modeText: string,
): Promise<number> {
  const config = serveConfig(options)
  const mode = modeOf(modeText)
  const engine = await engineOrReport(config, mode)
  if (engine === null) return EXIT_FAILED
  const security = wireSecurity(config)
  const warning = openWireWarning(config.workerHost, security)
  // The parent of a worker says it once for all.
  if (warning !== null && process.send === undefined) console.error(warning)
  const exitCode = await runWorkerProcess({
    ...hostedOptions(config),
    engine,
    mode,
    ...security,
    host: config.workerHost,
    port: 0,
    discovery: openDiscovery(config),
    logLevel: config.logLevel,
    ...adminOf(config),
  })
  // An engine that hangs would keep the process alive.
  process.exit(exitCode)
}

/** A worker that somebody started tells its parent what is wrong, and only the parent prints it. */
async function engineOrReport(
  config: ServeConfig,
  mode: DisaggregationMode,
): Promise<Engine | null> {
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

function modeOf(text: string): DisaggregationMode {
  try {
    return parseDisaggregationMode(text)
  } catch (error) {
    throw new BatonError('config.invalid', `--mode: ${BatonError.from(error).message}`)
  }
}
