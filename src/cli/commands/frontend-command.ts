/**
 * `baton frontend`: a frontend, or several behind one port, for workers that are started elsewhere.
 */
import cluster from 'node:cluster'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../base/index.ts'
import { describeDiscovery } from '../../discovery/index.ts'
import {
  EXIT_IN_HASTE,
  exitCodeOf,
  FrontendSiblings,
  watchShutdownSignals,
} from '../../host/index.ts'
import type { FrontendReport, ParentMessage } from '../../host/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { endFrontend } from '../compose/end-frontend.ts'
import { frontendProcesses } from '../compose/frontend-processes.ts'
import { FrontendStack } from '../compose/frontend-stack.ts'
import { accessLine } from '../compose/serve-banner.ts'
import { traceSettings } from '../compose/trace-settings.ts'
import { openDiscovery } from '../compose/open-discovery.ts'
import { openKeys } from '../guard/open-keys.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { loadPolicyModules } from '../options/policy-modules.ts'
import { routerSettings } from '../options/router-settings.ts'
import { discoveryText, serveConfig } from '../options/serve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from '../compose/version.ts'

/**
 * A frontend that starts beside others waits so long to learn about the workers; then it accepts requests in
 * any case.
 */
const SETTLE_MS = 1_000

/** `script`: the program that the process of a further frontend runs (this program itself). */
export async function runFrontendOnly(
  options: readonly ResolvedOption[],
  script: string,
): Promise<number> {
  const config = withoutMemory(serveConfig(options))
  if (cluster.isWorker) return await runSibling(config, options)
  return config.frontends > 1
    ? await runSeveral(config, options, script)
    : await runOne(config, options)
}

/**
 * This frontend may be one of several, which do not share memory. State in memory is therefore used only when
 * it was asked for explicitly.
 */
function withoutMemory(config: ServeConfig): ServeConfig {
  return { ...config, state: config.state ?? 'off' }
}

async function runOne(config: ServeConfig, options: readonly ResolvedOption[]): Promise<number> {
  const discovery = openDiscovery(config)
  const stack = await createStack(config, options, discovery)
  const signals = watchShutdownSignals({ onSecond: () => stack.cutOff() })
  try {
    const port = await stack.listen()
    // The process waits for an unavailable discovery service, but not when it is told to end.
    const watching = stack.watch().then(() => {
      void stack.untilSettled()
      console.log(banner(config, port, 'frontend'))
    })
    const signal = await Promise.race([signals.first, watching.then(() => signals.first)])
    await endFrontend(stack, config, signal)
    console.log('ended')
    return 0
  } finally {
    signals.close()
    await stack.close()
    await discovery.close()
  }
}

async function runSeveral(
  config: ServeConfig,
  options: readonly ResolvedOption[],
  script: string,
): Promise<number> {
  // Reports an invalid --discovery before anything is started.
  await openDiscovery(config).close()
  const group = frontendProcesses({
    config,
    options,
    script,
    meeting: discoveryText(options) ?? '',
  })
  const signals = watchShutdownSignals({ onSecond: () => group.cutOff() })
  try {
    const port = await group.start()
    console.log(banner(config, port, `${config.frontends} frontends`))
    const signal = await Promise.race([signals.first, group.lost])
    console.log(`\n${signal}: draining (repeat to stop at once)`)
    await group.stop(config.drainSeconds * 1000 + 5_000)
    console.log('ended')
    return 0
  } finally {
    signals.close()
    group.kill()
  }
}

/** One of several frontends. The parent process prints, handles Ctrl-C, and ends this process with SIGTERM. */
async function runSibling(
  config: ServeConfig,
  options: readonly ResolvedOption[],
): Promise<number> {
  const ended = new Promise<void>((resolve) => {
    process.once('SIGTERM', () => resolve())
    process.once('disconnect', () => resolve())
  })
  process.on('SIGINT', () => undefined)
  process.on('SIGHUP', () => undefined)
  const discovery = openDiscovery(config)
  const siblings = FrontendSiblings.ofThisProcess(true)
  let stack: FrontendStack | null = null
  try {
    stack = await createStack(config, options, discovery, siblings)
    const running = stack
    // A frontend that starts later than the others receives requests at once, so it has to know the workers
    // before it listens.
    const watched = running.watch()
    await Promise.race([watched.then(() => running.untilSettled()), sleep(SETTLE_MS)])
    const port = await running.listen()
    process.on('message', (message) => void onTold(running, message as ParentMessage))
    await report({ kind: 'ready', port })
    await Promise.race([ended, watched.then(() => ended)])
    await running.drain(config.drainSeconds * 1000)
    return 0
  } catch (thrown) {
    const error = BatonError.from(thrown)
    await report({ kind: 'failed', error: error.toValue() })
    return exitCodeOf(error)
  } finally {
    siblings?.close()
    await stack?.close()
    await discovery.close()
    if (process.connected) process.disconnect()
  }
}

async function onTold(stack: FrontendStack, message: ParentMessage): Promise<void> {
  if (message.kind === 'ping') return await report({ kind: 'pong' })
  if (message.kind === 'note') stack.note(message.name, message.note)
  if (message.kind === 'cut-off') {
    stack.cutOff()
    setImmediate(() => process.exit(EXIT_IN_HASTE))
  }
  if (message.kind !== 'await-workers') return
  try {
    const cards = await stack.untilConnected(message.workers, message.deadlineMs)
    await report({ kind: 'connected', cards })
  } catch (thrown) {
    await report({ kind: 'failed', error: BatonError.from(thrown).toValue() })
  }
}

/** Resolves when the message has been sent. */
function report(message: FrontendReport<WorkerCard>): Promise<void> {
  return new Promise((resolve) => {
    if (process.connected) process.send?.(message, undefined, {}, () => resolve())
    else resolve()
  })
}

async function createStack(
  config: ServeConfig,
  options: readonly ResolvedOption[],
  discovery: ReturnType<typeof openDiscovery>,
  siblings: FrontendSiblings | null = null,
): Promise<FrontendStack> {
  const router = { ...routerSettings(options).router, ...(await loadPolicyModules(options)) }
  const openTraces = await traceSettings(config)
  const keys = await openKeys(config)
  return new FrontendStack({ config, router, discovery, plane: 'tcp', siblings, keys, openTraces })
}

function banner(config: ServeConfig, port: number, what: string): string {
  const { discovery, host } = config
  const where = discovery === null ? '' : describeDiscovery(discovery)
  const scheme = config.httpTlsCert === null ? 'http' : 'https'
  const address = host.includes(':') ? `[${host}]` : host
  return `Baton ${BATON_VERSION} ${what} at ${scheme}://${address}:${port}, workers from ${where}
  access    ${accessLine(config)}`
}
