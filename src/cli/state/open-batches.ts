/** Opens the storage of files and batches that `--files-dir` names. */
import { randomUUID } from 'node:crypto'
import type { BatchOptions } from '../../frontend/index.ts'
import { osClock, processPlace } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { DiskFolder } from './disk-folder.ts'

/** Undefined: files and batches are off. Throws `config.invalid` for a folder that cannot be used. */
export function openBatches(
  config: Pick<
    ServeConfig,
    'filesDir' | 'filesLimit' | 'fileLimit' | 'filesTtlSeconds' | 'batchRequests'
  >,
): BatchOptions | undefined {
  const { filesDir, filesLimit, fileLimit, filesTtlSeconds, batchRequests } = config
  if (filesDir === null) return undefined
  const holder = { place: processPlace(), pid: process.pid, instance: randomUUID() }
  return {
    folder: DiskFolder.open(filesDir, holder, () => osClock.nowMs()),
    bytesMax: filesLimit,
    fileBytesMax: fileLimit,
    keepSeconds: filesTtlSeconds,
    requestsMax: batchRequests,
  }
}
