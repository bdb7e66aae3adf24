/**
 * `baton serve`: frontend and workers on this machine, up together and down in order.
 *
 * Up: port, workers, discovery, banner. Down: the frontend lets its requests end, then the workers drain.
 */
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { BatonError } from '../base/index.ts'
import {
  createLogger,
  FileDiscovery,
  HostedWorker,
  makeProcessFolder,
  MemoryDiscovery,
  watchShutdownSignals,
  workerLog,
  WorkerSupervisor,
} from '../host/index.ts'
import type { Discovery, SupervisorEvent } from '../host/index.ts'
import type { DisaggregationMode } from '../request/index.ts'
import { createEngine } from './create-engine.ts'
import { endFrontend } from './end-frontend.ts'
import { hostedOptions } from './hosted-options.ts'
import { FrontendStack } from './frontend-stack.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { routerSettings } from './router-settings.ts'
import { serveBanner } from './serve-banner.ts'
import { serveConfig } from './serve-config.ts'
import type { ServeConfig } from './serve-config.ts'
import { openWireWarning, wireSecurity } from './wire-security.ts'
import { workerArgs, workerEnvironment } from './worker-args.ts'

const START_DEADLINE_MS = 120_000
const MAIN = fileURLToPath(new URL('./main.js', import.meta.url))

/** What runs beside the frontend, in whichever way. */
interface Fleet {
  readonly workers: number
  start(): Promise<void>
  stop(deadlineMs: number): Promise<void>
  kill(): void
}

export async function runServe(options: readonly ResolvedOption[]): Promise<number> {
  const config = serveConfig(options)
  const { discoveryDir } = config
  const warning = openWireWarning(config.workerHost, wireSecurity(config))
  if (warning !== null && !config.inProcess) console.error(warning)
  const own = discoveryDir === null ? makeProcessFolder(tmpdir(), 'baton-fleet-') : null
  try {
    return await serve(config, options, discoveryDir ?? own?.path ?? '', () => own?.remove())
  } finally {
    own?.remove()
  }
}

async function serve(
  config: ServeConfig,
  options: readonly ResolvedOption[],
  folder: string,
  onHaste: () => void,
): Promise<number> {
  const { router } = routerSettings(options)
  const discovery = config.inProcess ? new MemoryDiscovery() : new FileDiscovery({ folder })
  const stack = new FrontendStack({
    config,
    router,
    discovery,
    plane: config.inProcess ? 'local' : 'tcp',
  })
  const fleet = config.inProcess
    ? localFleet(config, stack, discovery)
    : processFleet(config, options, folder)
  const signals = watchShutdownSignals({
    onSecond: () => {
      fleet.kill()
      onHaste()
    },
  })
  try {
    const port = await stack.listen()
    const started = start(config, stack, fleet, port)
    const ended = await Promise.race([signals.first, started.then(() => signals.first)])
    return await stop(config, stack, fleet, ended)
  } catch (error) {
    fleet.kill()
    throw error
  } finally {
    signals.close()
    await stack.close()
    await discovery.close()
  }
}

async function start(
  config: ServeConfig,
  stack: FrontendStack,
  fleet: Fleet,
  port: number,
): Promise<void> {
  await stack.watch()
  await fleet.start()
  const cards = await stack.untilConnected(fleet.workers, START_DEADLINE_MS)
  console.log(serveBanner(config, port, cards))
}

async function stop(
  config: ServeConfig,
  stack: FrontendStack,
  fleet: Fleet,
  signal: string,
): Promise<number> {
  await endFrontend(stack, config, signal)
  await fleet.stop(config.drainSeconds * 1000 + 5_000)
  console.log('ended')
  return 0
}

function roles(
  config: ServeConfig,
): { readonly name: string; readonly mode: DisaggregationMode }[] {
  const of = (mode: DisaggregationMode, name: string, count: number) =>
    Array.from({ length: count }, (_, index) => ({ mode, name: `${name} ${index + 1}` }))
  return [
    ...of('prefill', 'prefill', config.prefill),
    ...of('decode', 'decode', config.decode),
    ...of('agg', 'aggregated', config.aggregated),
  ]
}

function processFleet(
  config: ServeConfig,
  options: readonly ResolvedOption[],
  folder: string,
): Fleet {
  const supervisor = new WorkerSupervisor({
    script: MAIN,
    startDeadlineMs: START_DEADLINE_MS,
    restartsPerMinuteMax: 5,
    onEvent: (event) => tellEvent(event),
  })
  const specs = roles(config).map(({ name, mode }) => ({
    name,
    args: workerArgs(options, mode, folder),
    environment: workerEnvironment(process.env, config.wireSecret),
  }))
  return {
    workers: specs.length,
    start: async () => {
      await supervisor.startAll(specs)
    },
    stop: async (deadlineMs) => {
      const killed = await supervisor.stop(deadlineMs)
      if (killed.length > 0) console.log(`had to be killed: ${killed.join(', ')}`)
    },
    kill: () => supervisor.kill(),
  }
}

function tellEvent(event: SupervisorEvent): void {
  if (event.kind === 'died') {
    console.error(
      `baton: worker ${event.name} (pid ${event.pid}) died: ${event.how}; starting another`,
    )
  } else if (event.kind === 'restarted') {
    console.error(`baton: worker ${event.worker.name} started again (pid ${event.worker.pid})`)
  } else {
    console.error(`baton: worker ${event.name} stays down: ${event.reason}`)
  }
}

function localFleet(config: ServeConfig, stack: FrontendStack, discovery: Discovery): Fleet {
  const workers: HostedWorker[] = []
  const { localPlane } = stack
  if (localPlane === null) throw new BatonError('runtime.internal', 'no local plane')
  const planned = roles(config)
  let isStopping = false
  const stop = async (): Promise<void> => {
    isStopping = true
    await Promise.all(workers.map((worker) => worker.stop()))
  }
  const startAll = async (): Promise<void> => {
    for (const { mode } of planned) {
      const engine = await createEngine(config, mode)
      if (isStopping) return
      const worker = new HostedWorker({
        ...hostedOptions({ ...config, graceSeconds: 0 }),
        engine,
        mode,
        plane: { kind: 'local', plane: localPlane },
        discovery,
        observe: workerLog(createLogger(config.logLevel)),
      })
      workers.push(worker)
      await worker.start()
    }
  }
  return {
    workers: planned.length,
    start: async () => {
      try {
        await startAll()
      } catch (error) {
        // Those that are up already would keep the process alive.
        await stop()
        throw error
      }
    },
    stop,
    kill: () => undefined,
  }
}
