/**
 * A Kubernetes API server with what a watch of pods needs, over HTTPS: list, watch from a version, bookmarks,
 * expired versions (410), the end of a watch after its time, broken connections, missing answers. Requests are recorded.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

interface PodEvent {
  readonly version: number
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED'
  readonly object: Record<string, unknown>
}

export class KubernetesServer {
  readonly asked: string[] = []
  readonly accountFolder = mkdtempSync(join(tmpdir(), 'baton-account-'))
  /** While set, every request gets this status. */
  status: number | null = null
  /** While set, every watch gets this status; lists are answered. */
  watchStatus: number | null = null
  /** While true, requests are accepted and not answered. */
  isSilent = false
  readonly #pods = new Map<string, Record<string, unknown>>()
  /** With the version from which each has started. */
  readonly #watches = new Map<ServerResponse, number>()
  #events: PodEvent[] = []
  #version = 1
  #oldest = 0
  readonly #server

  private constructor() {
    const key = join(this.accountFolder, 'key.pem')
    const words =
      'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=api -addext subjectAltName=IP:127.0.0.1 -days 2'
    const ca = join(this.accountFolder, 'ca.crt')
    spawnSync('openssl', [...words.split(' '), '-keyout', key, '-out', ca])
    writeFileSync(join(this.accountFolder, 'token'), 'hush\n')
    writeFileSync(join(this.accountFolder, 'namespace'), 'fleet\n')
    this.#server = createServer({ key: readFileSync(key), cert: readFileSync(ca) }, (ask, answer) =>
      this.#onRequest(ask, answer),
    )
  }

  static async start(): Promise<KubernetesServer> {
    const server = new KubernetesServer()
    await new Promise<void>((resolve) => {
      server.#server.listen(0, '127.0.0.1', resolve)
    })
    return server
  }

  get api(): { readonly host: string; readonly port: number } {
    return { host: '127.0.0.1', port: (this.#server.address() as AddressInfo).port }
  }

  get watchCount(): number {
    return this.#watches.size
  }

  /** A running pod with a worker at 127.0.0.1 and this port. */
  put(name: string, port: number, status: object = { phase: 'Running', podIP: '127.0.0.1' }): void {
    const type = this.#pods.has(name) ? 'MODIFIED' : 'ADDED'
    const containers = [{ ports: [{ name: 'baton', containerPort: port }] }]
    this.#tell(type, { metadata: { name, uid: name }, spec: { containers }, status })
  }

  remove(name: string): void {
    const pod = this.#pods.get(name)
    if (pod !== undefined) this.#tell('DELETED', pod)
  }

  bookmark(): void {
    this.#version += 1
    const metadata = { resourceVersion: String(this.#version) }
    this.#write({ type: 'BOOKMARK', object: { kind: 'Pod', metadata } })
  }

  /** Sends these bytes unchanged to all watches and ends their responses. */
  endWith(bytes: string): void {
    const ending = [...this.#watches.keys()]
    this.#watches.clear()
    for (const answer of ending) answer.end(bytes)
  }

  /** Expires the history: a watch from an older version gets 410, and open watches are told. */
  expire(): void {
    this.endWith(this.#expired())
  }

  /** Like `expire`, but the connections stay open. */
  expireOnly(): void {
    const line = this.#expired()
    for (const answer of this.#watches.keys()) answer.write(line)
  }

  #expired(): string {
    this.forget()
    const object = { kind: 'Status', code: 410, reason: 'Expired' }
    return `${JSON.stringify({ type: 'ERROR', object })}\n`
  }

  /** Expires the history without telling open watches. */
  forget(): void {
    this.#events = []
    this.#oldest = this.#version
  }

  /** The cluster is restored from an old backup without pods: a watch from its future is accepted and silent. */
  restore(): void {
    this.#pods.clear()
    this.#events = []
    this.#version = 1
    this.#oldest = 0
  }

  /** Breaks the connections of open watches in the middle of the response. */
  disconnect(): void {
    for (const answer of this.#watches.keys()) answer.socket?.destroy()
  }

  /** Open watches get nothing any more, not even their end; new connections work. */
  hang(): void {
    this.#watches.clear()
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
    rmSync(this.accountFolder, { recursive: true, force: true })
  }

  #tell(type: PodEvent['type'], pod: Record<string, unknown>): void {
    this.#version += 1
    const metadata = { ...(pod['metadata'] as object), resourceVersion: String(this.#version) }
    const object = { ...pod, metadata }
    const { name } = metadata as unknown as { name: string }
    if (type === 'DELETED') this.#pods.delete(name)
    else this.#pods.set(name, object)
    this.#events.push({ version: this.#version, type, object })
    this.#write({ type, object })
  }

  #write(event: object): void {
    for (const [answer, from] of this.#watches) {
      if (this.#version > from) answer.write(`${JSON.stringify(event)}\n`)
    }
  }

  #onRequest(ask: IncomingMessage, answer: ServerResponse): void {
    this.asked.push(`${ask.headers.authorization} ${ask.url}`)
    if (this.isSilent) return
    if (this.status !== null) {
      answer.writeHead(this.status).end('{}')
      return
    }
    const query = new URL(ask.url ?? '', 'https://api').searchParams
    if (query.get('watch') !== 'true') {
      const metadata = { resourceVersion: String(this.#version) }
      answer.end(JSON.stringify({ kind: 'PodList', metadata, items: [...this.#pods.values()] }))
      return
    }
    if (this.watchStatus !== null) {
      answer.writeHead(this.watchStatus).end('{}')
      return
    }
    const from = Number(query.get('resourceVersion'))
    if (from < this.#oldest) {
      answer.writeHead(410).end('{}')
      return
    }
    answer.writeHead(200, { 'content-type': 'application/json' })
    answer.flushHeaders()
    for (const { version, type, object } of this.#events)
      if (version > from) answer.write(`${JSON.stringify({ type, object })}\n`)
    this.#watches.set(answer, from)
    const late = setTimeout(
      () => {
        if (this.#watches.delete(answer)) answer.end()
      },
      Number(query.get('timeoutSeconds')) * 1_000,
    )
    answer.on('close', () => {
      clearTimeout(late)
      this.#watches.delete(answer)
    })
  }
}
