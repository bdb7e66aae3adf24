/**
 * What engines and Baton print during a test. A failure may not occur again, and its cause is often only in the log
 * of an engine.
 *
 * Owns: a file per engine, `test/engines/logs/NAME.log`, which the next run overwrites; and the print of the ends of
 * all logs when a test fails.
 */
import type { ChildProcess } from 'node:child_process'
import { mkdirSync, openSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach } from 'vitest'
import { startServer } from '../running-server.ts'
import type { RunningServer } from '../running-server.ts'

const FOLDER = fileURLToPath(new URL('logs/', import.meta.url))
const END_LENGTH = 20_000
const SHOWN_LINES = 60

export interface LogFile {
  readonly path: string
  /** For `stdio` of a child process, which then never waits for a reader. */
  readonly descriptor: number
  readonly all: () => string
  readonly end: () => string
}

/** A name that is taken in this test file gets a number. */
export function openLog(name: string): LogFile {
  mkdirSync(FOLDER, { recursive: true })
  const count = (opened.get(name) ?? 0) + 1
  opened.set(name, count)
  const file = path.join(FOLDER, `${count === 1 ? name : `${name}-${count}`}.log`)
  return {
    path: file,
    descriptor: openSync(file, 'w'),
    all: () => readFileSync(file, 'utf8'),
    end: () => readFileSync(file, 'utf8').slice(-END_LENGTH),
  }
}

const opened = new Map<string, number>()

interface Shown {
  readonly title: string
  readonly process: ChildProcess
  readonly end: () => string
}

let shown: readonly Shown[] = []

/** The end of its log is printed when a test fails that began while the process was running, or that started it. */
export function showWhenFailed(title: string, process: ChildProcess, end: () => string): void {
  shown = [...shown, { title, process, end }]
}

/** `baton serve`, whose log is shown as well. */
export async function startBatonServer(args: readonly string[]): Promise<RunningServer> {
  const server = await startServer(args)
  showWhenFailed(`baton serve ${args.join(' ')}`, server.process, server.printed)
  return server
}

beforeEach(() => {
  shown = shown.filter(({ process }) => process.exitCode === null && process.signalCode === null)
})

afterEach(({ task }) => {
  if (task.result?.state !== 'fail') return
  for (const { title, end } of shown) {
    const lines = end().trimEnd().split('\n').slice(-SHOWN_LINES)
    console.log(`--- ${title}, the last ${lines.length} lines:\n${lines.join('\n')}`)
  }
})
