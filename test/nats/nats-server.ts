/**
 * A real nats-server (Debian package `nats-server`) for tests, and a proxy before it that can be cut.
 */
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { freePort } from '../free-port.ts'
import { until } from '../until.ts'

/** Null: not installed. */
export const NATS_VERSION: string | null = (() => {
  const asked = spawnSync('nats-server', ['--version'], { encoding: 'utf8' })
  return asked.status === 0 ? asked.stdout.trim() : null
})()

if (NATS_VERSION === null) {
  process.stderr.write(
    '\n*** nats-server is not installed: the tests over NATS are SKIPPED (apt-get install nats-server)\n',
  )
}

export class NatsServer {
  readonly port: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'baton-nats-'))
  readonly #config: string
  #process: ChildProcess | null = null

  private constructor(port: number, settings: string) {
    this.port = port
    this.#config = join(this.#folder, 'server.conf')
    writeFileSync(
      this.#config,
      `host: 127.0.0.1\nport: ${port}\njetstream { store_dir: "${this.#folder}" }\n${settings}\n`,
    )
  }

  static async start(settings = ''): Promise<NatsServer> {
    const server = new NatsServer(await freePort(), settings)
    await server.restart()
    return server
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  /** Up again on the same port; what was in memory is lost. */
  async restart(): Promise<void> {
    this.#process = spawn('nats-server', ['-c', this.#config], { stdio: 'ignore' })
    await until('nats-server listens', () => answers(this.port))
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    const gone = this.#process
    this.#process = null
    if (gone === null) return
    const exited = new Promise((resolve) => gone.once('exit', resolve))
    gone.kill('SIGKILL')
    await exited
  }

  suspend(): void {
    this.#process?.kill('SIGSTOP')
  }

  resume(): void {
    this.#process?.kill('SIGCONT')
  }

  async close(): Promise<void> {
    this.resume()
    await this.kill()
    rmSync(this.#folder, { recursive: true, force: true })
  }
}

/** Between a client and the server; cut, it swallows every byte and says nothing, as a partition does. */
export class CuttableProxy {
  readonly #sockets = new Set<Socket>()
  readonly #server
  #isCut = false

  private constructor(targetPort: number) {
    this.#server = createServer((client) => {
      const upstream = connect(targetPort, '127.0.0.1')
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(from)
        from.on('data', (bytes) => {
          if (!this.#isCut) to.write(bytes)
        })
        from.on('error', () => undefined)
        from.on('close', () => {
          this.#sockets.delete(from)
          to.destroy()
        })
      }
    })
  }

  static async start(targetPort: number): Promise<CuttableProxy> {
    const proxy = new CuttableProxy(targetPort)
    await new Promise<void>((resolve) => {
      proxy.#server.listen(0, '127.0.0.1', resolve)
    })
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  cut(): void {
    this.#isCut = true
  }

  /** What was swallowed is lost: connections of before are of no use any more. */
  mend(): void {
    this.#isCut = false
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy()
    await new Promise((resolve) => this.#server.close(resolve))
  }
}

async function answers(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
