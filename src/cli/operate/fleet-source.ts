/**
 * Where `baton top` and `baton doctor` read a fleet from: a frontend's `/debug/fleet`, or with `--discovery`
 * the workers themselves, to which this process connects like a frontend without an HTTP port.
 */
import { existsSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { BatonError } from '../../base/index.ts'
import type { FleetView } from '../../frontend/index.ts'
import { askServer, saidIn } from '../commands/ask-server.ts'
import { FrontendStack } from '../compose/frontend-stack.ts'
import { openDiscovery } from '../compose/open-discovery.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'
import { fleetOf } from './fleet-shape.ts'
import { ANSWER_MS_MAX } from './server-checks.ts'

export interface FleetSource {
  /** An address, for display. */
  readonly name: string
  fleet(): Promise<FleetView>
  close(): Promise<void>
}

/** Milliseconds for workers to connect and to report their load for the first time. */
const SETTLE_MS = 1_500

export function serverSource(url: string): FleetSource {
  return {
    name: url,
    fleet: async () => {
      const { status, body } = await askServer(url, '/debug/fleet', ANSWER_MS_MAX)
      if (status === 200) return fleetOf(body, url)
      throw refusal(status, body, url)
    },
    close: async () => undefined,
  }
}

/**
 * Throws `config.invalid` when `--discovery` cannot be used, and `discovery.unavailable` when its folder does not exist:
 * a command that only reads must not create a mistyped folder.
 */
export async function discoverySource(
  options: readonly ResolvedOption[],
  name: string,
): Promise<FleetSource> {
  // This stack only reads: no port is opened and no key is needed.
  const config = {
    ...serveConfig(options),
    logLevel: 'silent' as const,
    keys: null,
    insecureOpen: true,
  }
  const folder = config.discovery?.kind === 'file' ? config.discovery.folder : null
  if (folder !== null && !existsSync(folder)) {
    throw new BatonError(
      'discovery.unavailable',
      `the discovery folder ${folder} does not exist: correct the path, or start a worker that registers there`,
    )
  }
  const discovery = openDiscovery(config)
  // It sends no requests, so it does not ask for the workers' cached blocks.
  const stack = new FrontendStack({
    config,
    discovery,
    router: { mode: 'round-robin' },
    plane: 'tcp',
  })
  try {
    // The first timer keeps this process alive; the timers of the stack do not.
    const settled = new AbortController()
    const limit = sleep(SETTLE_MS, undefined, { signal: settled.signal }).catch(() => undefined)
    // A NATS server that is away is waited for without an end. The report then says that discovery is unreachable.
    await Promise.race([stack.watch().then(() => stack.untilSettled()), limit])
    settled.abort()
  } catch (error) {
    await stack.close()
    await discovery.close()
    throw error
  }
  return {
    name,
    fleet: async () => stack.fleet,
    close: async () => {
      await stack.close()
      await discovery.close()
    },
  }
}

function refusal(status: number, body: unknown, url: string): BatonError {
  if (status === 401 || status === 403) {
    return new BatonError(
      'request.unauthenticated',
      `${url} requires the key of an operator: set BATON_API_KEY (baton keys add --operator makes one)`,
    )
  }
  if (status === 404) {
    return new BatonError(
      'transport.version_mismatch',
      `${url} has no /debug/fleet: it is not a Baton server, or an older version`,
    )
  }
  return new BatonError(
    'backend.unknown',
    `${url} answered ${status}: ${saidIn(body) ?? 'no reason given'}`,
  )
}
