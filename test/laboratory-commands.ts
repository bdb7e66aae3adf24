/**
 * Runs the laboratory commands (`baton replay`, `compare`, `bench` and others) in a temporary folder, one after the
 * other in one process. docs-run.system.test.ts runs them as processes of their own.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'

/** The working folder of the commands. */
export const folder = mkdtempSync(join(tmpdir(), 'baton-laboratory-'))
export const batons = new BatonsInTurn()

afterAll(async () => {
  expect(await batons.stop()).toBe(0)
})
afterAll(() => rmSync(folder, { recursive: true }))

/** Runs a command; rejects with its exit code and output if it fails. */
export async function baton(...args: string[]): Promise<{ stdout: string; stderr: string }> {
  const ended = await batons.run(args, {}, folder)
  if (ended.exitCode !== 0) throw Object.assign(new Error(ended.printed), ended)
  return ended
}

export const at = (name: string): string => join(folder, name)

/** Expects that a command exits with 2 and prints one line that contains `text`. */
export async function expectRefused(args: readonly string[], text: string): Promise<void> {
  const failed = await batons.run(args, {}, folder)
  expect([failed.exitCode, failed.stderr]).toEqual([2, expect.stringContaining(text)])
  expect(failed.stderr.trim().split('\n')).toHaveLength(1)
}
