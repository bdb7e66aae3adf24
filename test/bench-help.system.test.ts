/** The command line of the programs in `bench/`. */
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { promisify } from 'node:util'
import { describe, expect, it } from 'vitest'

const run = promisify(execFile)
const programs = readdirSync('bench').filter((name) => name.endsWith('.ts'))

function start(program: string, ...args: string[]): Promise<{ readonly stdout: string }> {
  return run(process.execPath, ['--import', 'tsx', `bench/${program}`, ...args])
}

describe('a program in bench/', () => {
  it.each(programs)('%s - reads its options as all do, and says what it measures', (name) => {
    const source = readFileSync(`bench/${name}`, 'utf8')
    expect(source).toContain('readOptions(')
    expect(source).toMatch(/^\/\*\*\n \* \S/)
  })

  it('--help - prints what it measures and its options with their defaults', async () => {
    const { stdout } = await start('overload.ts', '--help')
    expect(stdout).toContain('Behaviour of a fleet under overload')
    expect(stdout).toContain('--frontends VALUE (default: 1,2)')
    expect(stdout).not.toContain('*')
  })

  it('an unknown option - one sentence, code 2', async () => {
    await expect(start('text.ts', '--round', '3')).rejects.toMatchObject({
      code: 2,
      stderr: "text.ts: Unknown option '--round'; --help shows what it measures and its options\n",
    })
  })
})
