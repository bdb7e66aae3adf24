/**
 * What a server takes of media in requests that are passed through, from its configuration.
 */
import type { MediaOptions } from '../../frontend/index.ts'
import { createMediaFetcher } from '../../network/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** Throws `config.invalid` for a host that cannot be one. */
export function mediaOptionsOf({ mediaHosts, mediaLimit }: ServeConfig): MediaOptions {
  const hosts = (mediaHosts ?? '').split(',').filter((host) => host.trim() !== '')
  if (hosts.length === 0) return { bytesMax: mediaLimit }
  return { bytesMax: mediaLimit, fetch: createMediaFetcher({ hosts }) }
}
