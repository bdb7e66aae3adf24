/**
 * Where process ids mean the same: one start of one kernel, one PID namespace.
 *
 * Two containers of a pod, or a container on the host's network, have one hostname and different processes; the name of
 * the machine alone would let a watcher declare a live worker dead.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

let place: string | null = null

/** Without Linux's /proc the name of the machine has to do. */
export function processPlace(): string {
  place ??= [hostname(), bootId(), pidNamespace()].filter((part) => part !== '').join('/')
  return place
}

function bootId(): string {
  return orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
}

/** Its number, for example `4026531836`; empty where there are none. */
export function pidNamespace(): string {
  return /\d+/.exec(orEmpty(() => readlinkSync('/proc/self/ns/pid')))?.[0] ?? ''
}

function orEmpty(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}
