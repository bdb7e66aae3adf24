/** Opens the discovery backend that `--discovery` names. */
import { BatonError } from '../../base/index.ts'
import { openAddress } from '../../discovery/index.ts'
import type { AddressDiscoveryOptions, Discovery, DiscoveryAddress } from '../../discovery/index.ts'
import { WorkerCardLink } from '../../network/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from './version.ts'
import { wireSecurity } from '../guard/wire-security.ts'

/** Null: `--discovery` is not given. Throws `config.invalid`. */
export function openDiscovery(
  config: ServeConfig,
  address: DiscoveryAddress | null = config.discovery,
): Discovery {
  if (address === null) {
    throw new BatonError(
      'config.invalid',
      '--discovery is missing: say where workers register and frontends find them, for example file:/srv/baton/fleet',
    )
  }
  return openAddress(address, {
    follow: () => cardLinks(config),
    onFolderMade: (folder) =>
      console.error(`baton: the discovery folder ${folder} did not exist and was created`),
  })
}

/** Milliseconds to connect to a worker, and again for its first answer. */
const CARD_MS = 3_000

function cardLinks(config: ServeConfig): AddressDiscoveryOptions['follow'] {
  const security = wireSecurity(config)
  const software = `baton ${BATON_VERSION}`
  return (address, listener) =>
    new WorkerCardLink({ ...address, ...security, software, timeoutMs: CARD_MS }, listener)
}
