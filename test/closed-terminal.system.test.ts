/**
 * A server whose terminal is closed drains and ends like after Ctrl-C. Node aborts at exit when it cannot restore the
 * settings of its terminal.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { until } from './until.ts'

const MAIN = fileURLToPath(new URL('../dist/bin/baton.js', import.meta.url))

/** The exit code of `baton` after its terminal was closed, which a shell that survives that writes to a file. */
async function codeAfterHangUp(args: string, ready: RegExp): Promise<string> {
  const folder = mkdtempSync(join(tmpdir(), 'baton-hang-up-'))
  const file = join(folder, 'code')
  // The shell is the leader of the terminal's session: it gets SIGHUP and sends it to Baton, as shells do.
  const script = [
    `"${process.execPath}" "${MAIN}" ${args} </dev/tty & pid=$!`,
    `trap 'kill -HUP $pid' HUP`,
    `while kill -0 $pid; do wait $pid; code=$?; done`,
    `echo "code $code" > "${file}"`,
  ].join('\n')
  const terminal = spawn('script', ['-qec', script, '/dev/null'], {
    stdio: ['pipe', 'pipe', 'ignore'],
    env: { ...process.env, SHELL: '/bin/sh', BATON_DISCOVERY: `file:${folder}/fleet` },
  })
  try {
    let printed = ''
    terminal.stdout.on('data', (bytes: Buffer) => (printed += bytes.toString()))
    await until('baton is ready', () => ready.test(printed))
    // `script` owns the terminal: when it is killed, the terminal is closed.
    terminal.kill('SIGKILL')
    const code = (): string => {
      try {
        return readFileSync(file, 'utf8')
      } catch {
        return ''
      }
    }
    await until('baton has ended', () => code().endsWith('\n'))
    return code().trim()
  } finally {
    terminal.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  }
}

it.skipIf(process.platform !== 'linux').each([
  ['a frontend', 'frontend --port 0'],
  ['a frontend and its workers', 'serve --engine sim --port 0'],
  ['several frontends', 'frontend --frontends 2 --port 0'],
])('%s whose terminal is closed - ends with code 0', async (_, args) => {
  expect(await codeAfterHangUp(args, /http:\/\/127\.0\.0\.1:\d+/)).toBe('code 0')
})
