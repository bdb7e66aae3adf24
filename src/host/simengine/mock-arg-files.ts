/**
 * Reads the files that the simulated engine's arguments name: a planner's profile (`.npz`, or the same arrays as
 * JSON) and the rows of a replay.
 */
import { BatonError, messageOf } from '../../base/index.ts'
import { readBoundedBytes } from '../../os/index.ts'
import { PLANNER_PROFILE_ARRAYS } from '../../simengine/index.ts'
import type { MockArgFiles } from '../../simengine/index.ts'
import { readNpz } from './npz.ts'

const BYTES_MAX = 256 * 1024 ** 2

export const mockArgFiles: MockArgFiles = {
  profile: (path) => {
    if (!path.endsWith('.npz')) return JSON.parse(readText(path)) as unknown
    const arrays = readNpz(readBytes(path))
    return Object.fromEntries(PLANNER_PROFILE_ARRAYS.map((name) => [name, arrays.get(name)]))
  },
  text: (path) => readText(path),
}

function readText(path: string): string {
  return readBytes(path).toString('utf8')
}

function readBytes(path: string): Buffer {
  try {
    return readBoundedBytes(path, { maxBytes: BYTES_MAX })
  } catch (cause) {
    const why = messageOf(cause)
    throw new BatonError('config.invalid', `${path} cannot be read: ${why}`, { cause })
  }
}
