/**
 * NVIDIA Dynamo as a target for comparison: its frontend and two of its mock workers, from a virtual environment
 * with `ai-dynamo` (`DIR/venv`).
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Target, Topology } from './targets.ts'

const START_TIMEOUT_MS = 60_000

export async function startDynamo(
  { venvParent, modelFolder }: { readonly venvParent: string; readonly modelFolder: string },
  topology: Topology,
  paced: boolean,
): Promise<Target> {
  const python = join(resolve(venvParent), 'venv/bin/python')
  const folder = mkdtempSync(join(tmpdir(), 'baton-bench-dynamo-'))
  const port = await freePort()
  const startedAt = performance.now()
  const run = async (args: readonly string[]): Promise<ChildProcess> => {
    const env = { ...environment(folder), DYN_SYSTEM_PORT: String(await freePort()) }
    return spawn(python, args, { stdio: 'ignore', env: { ...process.env, ...env } })
  }
  const roles = topology === 'disaggregated' ? ['prefill', 'decode'] : ['aggregated', 'aggregated']
  const workers: ChildProcess[] = []
  for (const role of roles) {
    const mode = role === 'aggregated' ? [] : ['--disaggregation-mode', role]
    const fixed =
      '--model-name model --num-gpu-blocks-override 1000000 --block-size 16 --max-num-seqs 4096 --max-num-batched-tokens 1000000'
    const speed = ['--speedup-ratio', paced ? '1' : '1000000']
    const place = ['-m', 'dynamo.mocker', '--model-path', resolve(modelFolder)]
    workers.push(await run([...place, ...fixed.split(' '), ...speed, ...mode]))
  }
  const listen = ['--http-host', '127.0.0.1', '--http-port', String(port)]
  const frontend = await run(['-m', 'dynamo.frontend', ...listen, '--router-mode', 'kv'])
  const stop = async (): Promise<void> => {
    await Promise.all([frontend, ...workers].map(ended))
    rmSync(folder, { recursive: true, force: true })
  }
  await untilAnswered(port, startedAt + START_TIMEOUT_MS).catch(async (error: unknown) => {
    await stop()
    throw error
  })
  const startMs = performance.now() - startedAt
  return { name: 'Dynamo', model: 'model', port, pid: frontend.pid ?? 0, startMs, stop }
}

const environment = (folder: string): Record<string, string> => ({
  DYN_DISCOVERY_BACKEND: 'file',
  DYN_FILE_KV: folder,
  DYN_REQUEST_PLANE: 'tcp',
  DYN_EVENT_PLANE: 'zmq',
  DYN_LOG: 'error',
  DYN_TCP_RPC_HOST: '127.0.0.1',
  DYN_HTTP_RPC_HOST: '127.0.0.1',
  DYN_TCP_RESPONSE_STREAM_HOST: '127.0.0.1',
  DYN_SYSTEM_HOST: '127.0.0.1',
  HF_HUB_OFFLINE: '1',
  TRANSFORMERS_OFFLINE: '1',
})

async function untilAnswered(port: number, deadline: number): Promise<void> {
  const body = { model: 'model', max_tokens: 2, messages: [{ role: 'user', content: 'hi' }] }
  while (performance.now() < deadline) {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
      signal: AbortSignal.timeout(5000),
    }).catch(() => null)
    await reply?.arrayBuffer()
    if (reply?.status === 200) return
    await new Promise((done) => setTimeout(done, 50))
  }
  throw new Error('Dynamo did not answer in time')
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = new Promise((done) => child.once('exit', done))
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), 5000)
  await exit
  clearTimeout(timer)
}

/** Dynamo reads some of its ports as a signed 16-bit number. */
async function freePort(): Promise<number> {
  for (let port = 23_000 + (process.pid % 400); port < 32_768; port++) {
    if (!taken.has(port) && (await isFree(port))) {
      taken.add(port)
      return port
    }
  }
  throw new Error('no free port below 32768')
}

const taken = new Set<number>()

function isFree(port: number): Promise<boolean> {
  return new Promise((done) => {
    const server = createServer().once('error', () => done(false))
    server.listen(port, '127.0.0.1', () => server.close(() => done(true)))
  })
}
