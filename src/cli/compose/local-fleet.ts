/**
 * Workers inside the frontend's process: `--in-process`.
 */
import { BatonError } from '../../base/index.ts'
import type { Discovery } from '../../discovery/index.ts'
import { createLogger, HostedWorker, workerLog } from '../../host/index.ts'
import type { TracesOfWorkers } from '../../host/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { createEngine } from '../engines/create-engine.ts'
import { fleetRoles } from './fleet.ts'
import { workerTraces } from './trace-settings.ts'
import type { Fleet } from './fleet.ts'
import type { FrontendStack } from './frontend-stack.ts'
import { hostedOptions } from './hosted-options.ts'

export function localFleet(config: ServeConfig, stack: FrontendStack, discovery: Discovery): Fleet {
  const workers: HostedWorker[] = []
  const { local: localPlane } = stack.planes
  if (localPlane === null) throw new BatonError('runtime.internal', 'no local plane')
  const planned = fleetRoles(config)
  let isStopping = false
  let traces: TracesOfWorkers | null = null
  const stop = async (): Promise<void> => {
    isStopping = true
    await Promise.all(workers.map((worker) => worker.stop()))
    await traces?.close()
  }
  const startAll = async (): Promise<void> => {
    traces = await workerTraces(config)
    for (const { mode } of planned) {
      const created = await createEngine(config, mode)
      if (isStopping) return
      const worker = new HostedWorker({
        ...hostedOptions({ ...config, graceSeconds: 0 }),
        ...created,
        mode,
        plane: { kind: 'local', plane: localPlane },
        discovery,
        observe: workerLog(createLogger(config.logLevel)),
        ...(traces === null ? {} : { traces }),
      })
      workers.push(worker)
      await worker.start()
    }
  }
  let started: Promise<void> | null = null
  return {
    workers: planned.length,
    start: async () => {
      started ??= startAll()
      try {
        await started
      } catch (error) {
        // Workers that are already running would keep the process alive.
        await stop()
        throw error
      }
    },
    stop,
    kill: () => undefined,
  }
}
