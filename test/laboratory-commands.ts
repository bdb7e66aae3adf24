/**
 * Runs the laboratory commands (`baton replay`, `compare`, `bench` and others) in a temporary folder, one after the
 * other in one process. docs-run.system.test.ts runs them as processes of their own.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect } from 'vitest'
import { BatonsInTurn } from './in-turn.ts'

interface LaboratoryCommands {
  /** Runs a command; rejects with its exit code and output if it fails. */
  readonly baton: (...args: string[]) => Promise<{ stdout: string; stderr: string }>
  /** The path of a file in the working folder of the commands. */
  readonly at: (name: string) => string
  /** Expects that a command exits with 2 and prints one line that contains `text`. */
  readonly expectRefused: (args: readonly string[], text: string) => Promise<void>
}

/** For one test file, which calls it at its top: files share this module with others of their process, but not the commands. */
export function laboratoryCommands(): LaboratoryCommands {
  const folder = mkdtempSync(join(tmpdir(), 'baton-laboratory-'))
  const batons = new BatonsInTurn()
  afterAll(async () => {
    expect(await batons.stop()).toBe(0)
  })
  afterAll(() => rmSync(folder, { recursive: true }))
  return {
    baton: async (...args) => {
      const ended = await batons.run(args, {}, folder)
      if (ended.exitCode !== 0) throw Object.assign(new Error(ended.printed), ended)
      return ended
    },
    at: (name) => join(folder, name),
    expectRefused: async (args, text) => {
      const failed = await batons.run(args, {}, folder)
      expect([failed.exitCode, failed.stderr]).toEqual([2, expect.stringContaining(text)])
      expect(failed.stderr.trim().split('\n')).toHaveLength(1)
    },
  }
}
