/**
 * What `baton doctor` checks on its own machine: the Node version, limits of open files, full disks.
 */
import { readFileSync } from 'node:fs'
import { stat, statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { fault, ok, warning } from './finding.ts'
import type { Finding } from './finding.ts'

/** A frontend needs one open file per client and per worker. */
const OPEN_FILES_WANTED = 4_096
const FREE_BYTES_MIN = 256 * 1024 * 1024
const FREE_SHARE_MIN = 0.05
const MIB = 1024 * 1024

/** `folders`: folders that the fleet writes to, checked in addition to the temporary folder. */
export async function localChecks(folders: readonly string[]): Promise<readonly Finding[]> {
  return [
    nodeVersion(process.versions.node),
    openFiles(readLimits()),
    ...(await disks([tmpdir(), ...folders])),
  ]
}

export function nodeVersion(version: string): Finding {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 20 || (major === 20 && minor >= 19)
    ? ok('node', `Node ${version}`)
    : fault('node', `Node ${version} is too old`, 'install Node 20.19 or newer')
}

/** `limits`: the text of /proc/self/limits; null where that file does not exist. */
export function openFiles(limits: string | null): Finding {
  const soft = /^Max open files\s+(\d+|unlimited)/m.exec(limits ?? '')?.[1]
  if (soft === undefined) return ok('open files', 'the limit is not known on this system')
  const isEnough = soft === 'unlimited' || Number(soft) >= OPEN_FILES_WANTED
  return isEnough
    ? ok('open files', `up to ${soft}`)
    : warning(
        'open files',
        `limit is ${soft}; each client and each worker needs one`,
        `ulimit -n ${OPEN_FILES_WANTED * 16}, or LimitNOFILE= in the systemd unit`,
      )
}

function readLimits(): string | null {
  try {
    return readFileSync('/proc/self/limits', 'utf8')
  } catch {
    return null
  }
}

/**
 * Each disk is reported once, under the first of its folders; a folder that does not exist is on another
 * machine.
 */
async function disks(folders: readonly string[]): Promise<readonly Finding[]> {
  const found = new Map<number, Finding>()
  for (const folder of folders) {
    try {
      const { dev } = await stat(folder)
      const { bavail, blocks, bsize } = await statfs(folder)
      // Some virtual file systems report no size.
      if (blocks > 0 && !found.has(dev))
        found.set(dev, diskSpace(folder, bavail * bsize, blocks * bsize))
    } catch {
      continue
    }
  }
  return [...found.values()]
}

export function diskSpace(path: string, freeBytes: number, allBytes: number): Finding {
  const text = `${path} has ${Math.round(freeBytes / MIB)} of ${Math.round(allBytes / MIB)} MiB free`
  const isFull = freeBytes < FREE_BYTES_MIN || freeBytes < FREE_SHARE_MIN * allBytes
  return isFull
    ? warning('disk', text, 'free some space, or choose another folder (TMPDIR, --discovery file:)')
    : ok('disk', text)
}
