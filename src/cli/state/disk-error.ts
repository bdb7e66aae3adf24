/** Errors of a folder on disk. */
import { BatonError } from '../../base/index.ts'

export function diskError(cause: unknown): BatonError {
  const { code } = cause as NodeJS.ErrnoException
  const isFull = code === 'ENOSPC' || code === 'EDQUOT'
  const text = isFull
    ? 'files and batches cannot be written: the disk or the quota is full'
    : `files and batches cannot be written: ${String(cause)}`
  return new BatonError(isFull ? 'host.disk_full' : 'runtime.internal', text, { cause })
}

export async function unlessMissing<T>(promise: Promise<T>): Promise<T | undefined> {
  try {
    return await promise
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined
    throw error
  }
}
