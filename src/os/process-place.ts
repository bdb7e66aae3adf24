/**
 * Identifies where process ids are comparable: the same boot of a kernel and the same PID namespace.
 *
 * Two containers of a pod, or a container in the host's network, have the same host name but different processes.
 * With the host name alone a watcher could declare a live worker dead.
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'

let place: string | null = null

/** Without Linux's /proc the host name has to suffice. */
export function processPlace(): string {
  place ??= [hostname(), bootId(), pidNamespace()].filter((part) => part !== '').join('/')
  return place
}

function bootId(): string {
  return orEmpty(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
}

/** Its number, for example `4026531836`; empty where there are no PID namespaces. */
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
