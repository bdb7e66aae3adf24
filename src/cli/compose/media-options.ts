/**
 * The limits and hosts for media in forwarded requests, from the configuration.
 */
import type { MediaOptions } from '../../frontend/index.ts'
import { createMediaFetcher } from '../../network/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** Throws `config.invalid` for an invalid host name. */
export function mediaOptionsOf({ mediaHosts, mediaLimit }: ServeConfig): MediaOptions {
  const hosts = (mediaHosts ?? '').split(',').filter((host) => host.trim() !== '')
  if (hosts.length === 0) return { bytesMax: mediaLimit }
  return { bytesMax: mediaLimit, fetch: createMediaFetcher({ hosts }) }
}
