/**
 * A real nats-server (Debian package `nats-server`) for tests.
 */
import { spawn, spawnSync } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
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
  #name = ''
  #process: ChildProcess | null = null

  private constructor(port: number) {
    this.port = port
    this.#config = join(this.#folder, 'server.conf')
  }

  /**
   * `jetstream`: more settings inside that block, each preceded by a comma. Another process may take the port before the
   * server does; then it is started on another one.
   */
  static async start(settings = '', jetstream = '', port?: number): Promise<NatsServer> {
    for (let attempt = 1; ; attempt++) {
      const server = new NatsServer(port ?? (await freePort()))
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
    const [, given] = /server_name: (\S+)/.exec(settings) ?? []
    this.#name = given ?? basename(this.#folder)
    const named = given === undefined ? `server_name: ${this.#name}\n` : ''
    writeFileSync(
      this.#config,
      `host: 127.0.0.1\nport: ${this.port}\njetstream { store_dir: "${this.#folder}"${jetstream} }\n${named}${settings}\n`,
    )
  }

  /**
   * Starts again on the same port; data in memory is lost. Rejects when another server has taken the port meanwhile:
   * a test that took it for its own would wait for ever when it ends.
   */
  async restart(): Promise<void> {
    const started = spawn('nats-server', ['-c', this.#config], { stdio: 'ignore' })
    this.#process = started
    await until('nats-server listens', async () => {
      if (started.exitCode !== null) throw new Error(`nats-server ended with ${started.exitCode}`)
      const who = await nameAt(this.port)
      if (who === null || who === this.#name) return who !== null
      throw new Error(`the nats-server ${who} has taken port ${this.port}`)
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

  /** While it is dead: the disk of the next start is empty. */
  forget(): void {
    rmSync(join(this.#folder, 'jetstream'), { recursive: true, force: true })
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

/** The name of the server that answers there. A NATS server speaks first; null: none answers. */
async function nameAt(port: number): Promise<string | null> {
  return await new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    const end = (name: string | null): void => {
      socket.destroy()
      resolve(name)
    }
    socket.setTimeout(ANSWER_MS, () => end(null))
    socket.once('data', (info: Buffer) =>
      end(/"server_name":"([^"]*)"/.exec(info.toString())?.[1] ?? ''),
    )
    socket.once('error', () => end(null))
    socket.once('close', () => end(null))
  })
}
