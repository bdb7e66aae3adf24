/**
 * The targets between the load generator and the upstreams: nothing, Baton, and other routers where they are
 * installed.
 */
import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { freePort } from '../../test/free-port.ts'
import { startServer } from '../../test/running-server.ts'

export interface Target {
  readonly name: string
  readonly port: number
  /** Null: there is no process in between. */
  readonly pid: number | null
  stop(): Promise<void>
}

export async function startUpstream(itlMs: number): Promise<Target> {
  const { port, child } = await startScript('./trivial-upstream.ts', [itlMs])
  return { name: 'direct', port, pid: null, stop: () => ended(child) }
}

/** A proxy that measures the cost of Node itself. */
export async function startNodeProxy(ports: readonly number[]): Promise<Target> {
  const { port, child } = await startScript('./node-proxy.ts', ports)
  return { name: 'node:http proxy', port, pid: child.pid ?? 0, stop: () => ended(child) }
}

async function startScript(
  file: string,
  args: readonly number[],
): Promise<{ readonly port: number; readonly child: ChildProcess }> {
  const path = fileURLToPath(new URL(file, import.meta.url))
  const child = spawn(process.execPath, ['--import', 'tsx', path, ...args.map(String)], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const port = await new Promise<number>((resolve) => {
    child.stdout.once('data', (bytes: Buffer) => resolve(Number(bytes.toString())))
  })
  return { port, child }
}

export async function startBaton(ports: readonly number[]): Promise<Target> {
  const upstream = ports.map((port) => `openai+http://127.0.0.1:${port}`).join(',')
  const args = ['--upstream', upstream, '--forward', '--log-level', 'error']
  const server = await startServer(args)
  return {
    name: 'baton',
    port: server.port,
    pid: server.frontendPid,
    stop: async () => void (await server.stop()),
  }
}

export async function startNginx(program: string, ports: readonly number[]): Promise<Target> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'baton-bench-'))
  const temporary = ['client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi']
    .map((name) => `${name}_temp_path ${folder}/${name};`)
    .join(' ')
  const servers = ports.map((one) => `server 127.0.0.1:${one};`).join(' ')
  writeFileSync(
    join(folder, 'nginx.conf'),
    `daemon off; worker_processes 2; pid ${folder}/pid; error_log ${folder}/error.log error;
events { worker_connections 4096; }
http { access_log off; client_max_body_size 64m; client_body_buffer_size 1m; ${temporary}
  upstream engines { ${servers} keepalive 256; }
  server { listen 127.0.0.1:${port}; keepalive_requests 1000000;
    location / { proxy_pass http://engines; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } } }`,
  )
  const child = spawn(program, ['-p', folder, '-c', join(folder, 'nginx.conf')], {
    stdio: 'inherit',
  })
  await untilOpen(port)
  return { name: 'nginx', port, pid: child.pid ?? 0, stop: () => ended(child) }
}

/** `program`: the folder of a virtual environment with the package. */
export async function startRouter(
  name: 'vllm-router' | 'sglang-router',
  folder: string,
  ports: readonly number[],
): Promise<Target> {
  const port = await freePort()
  const metrics = await freePort()
  const urls = ports.map((one) => `http://127.0.0.1:${one}`)
  const module =
    name === 'vllm-router' ? 'vllm_router.launch_router' : 'sglang_router.launch_router'
  const child = spawn(
    join(folder, 'bin/python'),
    ['-m', module, '--worker-urls', ...urls, '--host', '127.0.0.1', '--port', String(port)].concat([
      '--prometheus-port',
      String(metrics),
      '--policy',
      'cache_aware',
      '--log-level',
      'error',
    ]),
    { stdio: ['ignore', 'ignore', 'inherit'] },
  )
  await untilOpen(port)
  await untilServed(port)
  return { name, port, pid: child.pid ?? 0, stop: () => ended(child) }
}

/** The process and all its descendants. */
export function processTree(pid: number): readonly number[] {
  const parents = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        const stat = readFileSync(`/proc/${name}/stat`, 'latin1')
        return [
          [Number(name), Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])] as const,
        ]
      } catch {
        return []
      }
    })
  const tree = [pid]
  for (const of of tree) {
    for (const [child, parent] of parents) if (parent === of) tree.push(child)
  }
  return tree
}

async function ended(child: ChildProcess): Promise<void> {
  const closed = new Promise((resolve) => child.once('close', resolve))
  child.kill('SIGTERM')
  await closed
}

async function untilOpen(port: number): Promise<void> {
  for (let tries = 0; tries < 600; tries++) {
    const isOpen = await new Promise<boolean>((resolve) => {
      const socket = connect(port, '127.0.0.1', () => {
        socket.destroy()
        resolve(true)
      })
      socket.once('error', () => resolve(false))
    })
    if (isOpen) return
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  throw new Error(`nothing listens at ${port}`)
}

async function untilServed(port: number): Promise<void> {
  for (let tries = 0; tries < 300; tries++) {
    const reply = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{"model":"storyteller","messages":[{"role":"user","content":"hi"}],"max_tokens":1}',
    }).catch(() => null)
    await reply?.text()
    if (reply?.status === 200) return
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
  throw new Error(`${port} does not serve`)
}
