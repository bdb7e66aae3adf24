/**
 * The folders of this machine that a process with these options writes to; it fails when one of their disks is
 * full.
 */
import { dirname } from 'node:path'
import { modelCacheFolder } from '../compose/model-place.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'

export function writtenFolders(options: readonly ResolvedOption[]): readonly string[] {
  const config = serveConfig(options)
  const { discovery, filesDir, state } = config
  const database = /^sqlite:(.+)$/.exec(state ?? '')?.[1]
  return [
    ...(discovery?.kind === 'file' ? [discovery.folder] : []),
    ...(filesDir === null ? [] : [filesDir]),
    ...(database === undefined ? [] : [dirname(database)]),
    modelCacheFolder(config),
  ]
}
