/**
 * `baton worker`: one engine as a member of a fleet, in a process of its own.
 */
import { BatonError } from '../base/index.ts'
import { runWorkerProcess } from '../host/index.ts'
import { parseDisaggregationMode } from '../request/index.ts'
import type { DisaggregationMode } from '../request/index.ts'
import { createEngine } from './create-engine.ts'
import { openDiscovery } from './open-discovery.ts'
import { kvOpener } from './open-kv.ts'
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
  const exitCode = await runWorkerProcess({
    engine: await engineOrReport(config, mode),
    engineName: config.engine,
    mode,
    version: BATON_VERSION,
    host: config.workerHost,
    port: 0,
    discovery: openDiscovery(config),
    openKv: kvOpener(config),
    shutdown: {
      totalMs: (config.graceSeconds + config.drainSeconds) * 1000,
      routerGraceMs: config.graceSeconds * 1000,
    },
  })
  // An engine that hangs would keep the process alive.
  process.exit(exitCode)
}

async function engineOrReport(config: ServeConfig, mode: DisaggregationMode) {
  try {
    return await createEngine(config, mode)
  } catch (error) {
    process.send?.({ kind: 'failed', error: BatonError.from(error).toValue() })
    throw error
  }
}

function modeOf(text: string): DisaggregationMode {
  try {
    return parseDisaggregationMode(text)
  } catch (error) {
    throw new BatonError('config.invalid', `--mode: ${BatonError.from(error).message}`)
  }
}
