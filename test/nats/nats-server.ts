/**
 * A real nats-server (Debian package `nats-server`) for tests.
 */
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
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

const START_ATTEMPTS = 5
const ANSWER_MS = 5_000

export class NatsServer {
  readonly port: number
  readonly #folder = mkdtempSync(join(tmpdir(), 'baton-nats-'))
  readonly #config: string
  #process: ChildProcess | null = null

  private constructor(port: number) {
    this.port = port
    this.#config = join(this.#folder, 'server.conf')
  }

  /**
   * `jetstream`: more settings inside that block, each preceded by a comma. Another process may take the port before the
   * server does; then it is started on another one.
   */
  static async start(settings = '', jetstream = ''): Promise<NatsServer> {
    for (let attempt = 1; ; attempt++) {
      const server = new NatsServer(await freePort())
      server.configure(settings, jetstream)
      try {
        await server.restart()
        return server
      } catch (error) {
        await server.close()
        if (attempt === START_ATTEMPTS) throw error
      }
    }
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`
  }

  /** Replaces the settings; takes effect with the next start. */
  configure(settings: string, jetstream = ''): void {
    writeFileSync(
      this.#config,
      `host: 127.0.0.1\nport: ${this.port}\njetstream { store_dir: "${this.#folder}"${jetstream} }\n${settings}\n`,
    )
  }

  /** Starts again on the same port; data in memory is lost. */
  async restart(): Promise<void> {
    const started = spawn('nats-server', ['-c', this.#config], { stdio: 'ignore' })
    this.#process = started
    await until('nats-server listens', async () => {
      if (started.exitCode !== null) throw new Error(`nats-server ended with ${started.exitCode}`)
      return await answers(this.port)
    })
  }

  /** SIGKILL. */
  async kill(): Promise<void> {
    const gone = this.#process
    this.#process = null
    if (gone === null) return
    if (gone.exitCode !== null) return
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

/** A NATS server speaks first. */
async function answers(port: number): Promise<boolean> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (isThere: boolean): void => {
      socket.destroy()
      resolve(isThere)
    }
    socket.setTimeout(ANSWER_MS, () => end(false))
    socket.once('data', () => end(true))
    socket.once('error', () => end(false))
    socket.once('close', () => end(false))
  })
}
