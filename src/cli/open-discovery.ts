/**
 * Where workers and frontends of this machine find each other.
 */
import { FileDiscovery } from '../host/index.ts'
import type { Discovery } from '../host/index.ts'
import { BatonError } from '../base/index.ts'
import type { ServeConfig } from './serve-config.ts'

/** Throws `config.invalid` when no folder is given. */
export function openDiscovery(config: ServeConfig): Discovery {
  if (config.discoveryDir === null) {
    throw new BatonError(
      'config.invalid',
      '--discovery-dir is missing: name the folder that the workers and the frontend share',
    )
  }
  return new FileDiscovery({ folder: config.discoveryDir })
}
