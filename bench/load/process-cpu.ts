/**
 * CPU time and memory of a process by the operating system's own accounting (Linux: /proc).
 */
import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'

const TICKS_PER_SECOND = Number(execFileSync('getconf', ['CLK_TCK']).toString())

/** User and system time so far, in microseconds; the resolution is one tick (10 ms). */
export function cpuMicros(pid: number): number {
  const { userMicros, systemMicros } = cpuTimes(pid)
  return userMicros + systemMicros
}

export function cpuTimes(pid: number): {
  readonly userMicros: number
  readonly systemMicros: number
} {
  const stat = readFileSync(`/proc/${pid}/stat`, 'latin1')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  const micros = (ticks: string | undefined): number => (Number(ticks) / TICKS_PER_SECOND) * 1e6
  return { userMicros: micros(fields[11]), systemMicros: micros(fields[12]) }
}

export function rssMegabytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, 'latin1')
  return Number(/VmRSS:\s+(\d+)/.exec(status)?.[1] ?? 0) / 1024
}
