/**
 * `baton frontend`: a frontend for workers that are started elsewhere.
 */
import { watchShutdownSignals } from '../host/index.ts'
import { endFrontend } from './end-frontend.ts'
import { FrontendStack } from './frontend-stack.ts'
import { openDiscovery } from './open-discovery.ts'
import type { ResolvedOption } from './resolve-config.ts'
import { routerSettings } from './router-settings.ts'
import { serveConfig } from './serve-config.ts'
import { BATON_VERSION } from './version.ts'

export async function runFrontendOnly(options: readonly ResolvedOption[]): Promise<number> {
  const config = serveConfig(options)
  const { router } = routerSettings(options)
  const discovery = openDiscovery(config)
  const stack = new FrontendStack({ config, router, discovery, plane: 'tcp' })
  const signals = watchShutdownSignals({})
  try {
    const port = await stack.listen()
    await stack.watch()
    console.log(
      `Baton ${BATON_VERSION} frontend at http://${config.host}:${port}, workers from ${config.discoveryDir ?? ''}`,
    )
    const signal = await signals.first
    await endFrontend(stack, config, signal)
    console.log('ended')
    return 0
  } finally {
    signals.close()
    await stack.close()
    await discovery.close()
  }
}
