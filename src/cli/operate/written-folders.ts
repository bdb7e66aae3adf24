/** Where a process with these options writes on this machine: what fills up there stops it. */
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
