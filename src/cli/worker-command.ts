/**
 * `baton worker`: one engine as a member of a fleet, in a process of its own.
 */
import { BatonError } from '../base/index.ts'
import type { Engine } from '../engine/index.ts'
import { openKvTcp, runWorkerProcess } from '../host/index.ts'
import { parseDisaggregationMode } from '../request/index.ts'
import type { DisaggregationMode } from '../request/index.ts'
import { createEngine } from './create-engine.ts'
import { openDiscovery } from './open-discovery.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { serveConfig } from './serve-config.ts'
import type { ServeConfig } from './serve-config.ts'
import { BATON_VERSION } from './version.ts'

export async function runWorker(
  options: readonly ResolvedOption[],
  modeText: string,
): Promise<number> {
  const config = serveConfig(options)
  const mode = modeOf(modeText)
  const engine = await engineOrReport(config, mode)
  if (engine === null) return 1
  const exitCode = await runWorkerProcess({
    engine,
    engineName: config.engine,
    mode,
    version: BATON_VERSION,
    host: config.workerHost,
    port: 0,
    discovery: openDiscovery(config),
    openKv: (role) => openKvTcp(role, { host: config.workerHost }),
    shutdown: {
      totalMs: (config.graceSeconds + config.drainSeconds) * 1000,
      routerGraceMs: config.graceSeconds * 1000,
    },
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

function modeOf(text: string): DisaggregationMode {
  try {
    return parseDisaggregationMode(text)
  } catch (error) {
    throw new BatonError('config.invalid', `--mode: ${BatonError.from(error).message}`)
  }
}
