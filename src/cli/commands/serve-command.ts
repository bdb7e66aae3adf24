/**
 * `baton serve`: starts frontend and workers on this machine together, and stops them in order.
 *
 * Start: port, workers, discovery, banner. Stop: the frontend lets its requests end, then the workers drain.
 */
import { tmpdir } from 'node:os'
import { BatonError } from '../../base/index.ts'
import { parseDiscovery } from '../../discovery/index.ts'
import type { Discovery } from '../../discovery/index.ts'
import { watchShutdownSignals } from '../../host/index.ts'
import { makeProcessFolder } from '../../os/index.ts'
import { openDiscovery } from '../compose/open-discovery.ts'
import { openKeys } from '../guard/open-keys.ts'
import { endFrontend } from '../compose/end-frontend.ts'
import { startDeadlineMs } from '../compose/fleet.ts'
import type { Fleet, ServePlan } from '../compose/fleet.ts'
import type { FrontendStack } from '../compose/frontend-stack.ts'
import { processFleet } from '../compose/process-fleet.ts'
import { traceSettings } from '../compose/trace-settings.ts'
import { serveBanner } from '../compose/serve-banner.ts'
import { openWireWarning, wireSecurity } from '../guard/wire-security.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { loadPolicyModules } from '../options/policy-modules.ts'
import { serveSeveral } from './serve-several.ts'
import { routerSettings } from '../options/router-settings.ts'
import { discoveryText, isGateway, serveConfig } from '../options/serve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** Block size of the router's estimates for engines that report no blocks; an engine's own size takes precedence. */
const BLOCK_TOKENS = 16

/** `script`: the program that the process of a worker runs (this program itself). */
export async function runServe(
  options: readonly ResolvedOption[],
  script: string,
): Promise<number> {
  const config = serveConfig(options)
  if (config.forward && !isGateway(config)) {
    throw new BatonError(
      'config.invalid',
      '--forward has no effect without --upstream: requests can be forwarded only to foreign engines',
    )
  }
  if (isGateway(config)) {
    return await serve({ config, options, script, meeting: 'memory' }, () => undefined)
  }
  const warning = openWireWarning(config.workerHost, wireSecurity(config))
  if (warning !== null && !config.inProcess) console.error(warning)
  const told = config.inProcess ? 'memory' : discoveryText(options)
  const own = told === null ? makeProcessFolder(tmpdir(), 'baton-fleet-') : null
  const meeting = told ?? `file:${own?.path ?? ''}`
  try {
    const plan = { config, options, script, meeting }
    const run = config.frontends > 1 ? serveSeveral : serve
    return await run(plan, () => own?.remove())
  } finally {
    own?.remove()
  }
}

async function serve(plan: ServePlan, onHaste: () => void): Promise<number> {
  const { config, meeting } = plan
  const discovery = openDiscovery(config, parseDiscovery(meeting))
  let stack: FrontendStack | null = null
  const processes =
    config.inProcess || isGateway(config)
      ? null
      : processFleet(plan, (name, note) => stack?.note(name, note))
  let fleet: Fleet | null = processes
  const signals = watchShutdownSignals({
    onSecond: () => {
      stack?.cutOff()
      fleet?.kill()
      onHaste()
    },
  })
  try {
    // Worker processes start while this one loads the frontend; `start` below waits for them.
    processes?.start().catch(() => undefined)
    stack = await loadStack(plan, discovery)
    fleet ??= await loadLocalFleet(config, stack, discovery)
    const port = await stack.listen()
    const started = start(config, stack, fleet, port)
    const ended = await Promise.race([signals.first, started.then(() => signals.first)])
    return await stop(config, stack, fleet, ended)
  } catch (error) {
    fleet?.kill()
    throw error
  } finally {
    signals.close()
    await stack?.close()
    await discovery.close()
  }
}

async function loadStack(
  { config, options }: ServePlan,
  discovery: Discovery,
): Promise<FrontendStack> {
  const settings = routerSettings(options).router
  const blockSize = isGateway(config) ? { blockSize: settings.blockSize ?? BLOCK_TOKENS } : {}
  const router = { ...settings, ...blockSize, ...(await loadPolicyModules(options)) }
  const { FrontendStack: Stack } = await import('../compose/frontend-stack.ts')
  const isLocal = config.inProcess || isGateway(config)
  const openTraces = await traceSettings(config)
  const keys = await openKeys(config)
  const plane = isLocal ? 'local' : 'tcp'
  return new Stack({ config, router, discovery, plane, keys, openTraces })
}

async function loadLocalFleet(
  config: ServeConfig,
  stack: FrontendStack,
  discovery: Discovery,
): Promise<Fleet> {
  if (isGateway(config)) {
    const { gatewayFleet } = await import('../compose/gateway-fleet.ts')
    return gatewayFleet(config, stack, discovery)
  }
  const { localFleet } = await import('../compose/local-fleet.ts')
  return localFleet(config, stack, discovery)
}

async function start(
  config: ServeConfig,
  stack: FrontendStack,
  fleet: Fleet,
  port: number,
): Promise<void> {
  await stack.watch()
  await fleet.start()
  const cards = await stack.untilConnected(fleet.workers, startDeadlineMs(config))
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
