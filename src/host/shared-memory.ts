/**
 * The folder that is memory, through which processes of one machine pass bytes; and whether this one may use it.
 *
 * A container may have none, a small one (64 MB is common) or one that it must not write to.
 */
import { accessSync, constants, statfsSync } from 'node:fs'

export const SHARED_MEMORY = '/dev/shm'

/** What is passed at one time, with room to spare. */
const ROOM_BYTES = 32 * 1024 * 1024

/** Why it cannot be used; null: it can. */
export function sharedMemoryFault(folder: string = SHARED_MEMORY): string | null {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    const { bavail, bsize } = statfsSync(folder)
    if (bavail * bsize >= ROOM_BYTES) return null
    return `${folder} has less than ${ROOM_BYTES / 1024 ** 2} MiB left`
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    return code === 'ENOENT'
      ? `there is no ${folder} here`
      : `${folder} cannot be written (${code})`
  }
}
