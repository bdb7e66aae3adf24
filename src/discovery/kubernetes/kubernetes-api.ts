/**
 * Requests to the Kubernetes API of the cluster that this process runs in, as its ServiceAccount. The answer is
 * delivered line by line, as a watch sends it.
 */
import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'

export interface KubernetesOptions {
  /** Absent: the pod's own. */
  readonly namespace?: string
  readonly selector?: string
  /** Absent: from the variables that Kubernetes sets in every pod. */
  readonly api?: { readonly host: string; readonly port: number }
  readonly accountFolder?: string
  /** Timeout of a list. Default 5 s. */
  readonly listMs?: number
  /** The API ends a watch after this time. Default 30 s. */
  readonly watchSeconds?: number
}

interface Asked {
  readonly path: string
  /** The API has answered with status 200; lines follow. */
  readonly onOpen?: () => void
  /** An error that it throws ends the request. */
  readonly onLine: (line: string) => void
  /** Timeout of the answer's head, which an API sends at once, also for a watch. */
  readonly headMs: number
  /** The connection is closed when no byte arrives for this time. */
  readonly silenceMs: number
  readonly signal: AbortSignal
}

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const LINE_LENGTH_MAX = 64 * 1024 * 1024
/** TCP keep-alive detects a peer that is gone before the silence of a watch does. */
const KEEP_ALIVE_MS = 15_000

export class KubernetesApi {
  readonly #options: KubernetesOptions

  constructor(options: KubernetesOptions) {
    this.#options = options
  }

  async namespace(): Promise<string> {
    return this.#options.namespace ?? (await this.#account('namespace')).trim()
  }

  /** Resolves with the status when the answer has ended. Lines are delivered only for status 200. */
  async ask({ path, onOpen, onLine, headMs, silenceMs, signal }: Asked): Promise<number> {
    // The cluster renews the token, so it is read for each request.
    const [token, ca] = await Promise.all([this.#account('token'), this.#account('ca.crt')])
    const { host, port } = this.#options.api ?? apiOfCluster()
    const headers = { authorization: `Bearer ${token.trim()}`, accept: 'application/json' }
    return await new Promise<number>((resolve, reject) => {
      const asked = { host, port, path, ca, headers, timeout: silenceMs, signal }
      const end = (thrown: unknown): void => {
        clearTimeout(late)
        reject(BatonError.from(thrown))
        call.destroy()
      }
      const call = request(asked, (answer) => {
        clearTimeout(late)
        const status = answer.statusCode ?? 0
        if (status === 200) onOpen?.()
        const lines = new AnswerLines(status === 200 ? onLine : () => undefined)
        answer.setEncoding('utf8')
        answer.on('data', (piece: string) => {
          try {
            lines.take(piece)
          } catch (thrown) {
            end(thrown)
          }
        })
        answer.on('error', end)
        answer.on('end', () => {
          try {
            lines.end()
            resolve(status)
          } catch (thrown) {
            end(thrown)
          }
        })
      })
      call.on('socket', (socket) => socket.setKeepAlive(true, KEEP_ALIVE_MS))
      call.on('timeout', () => end(new Error('the Kubernetes API did not answer in time')))
      call.on('error', end)
      const late = setTimeout(
        () => end(new Error('the Kubernetes API did not answer in time')),
        headMs,
      )
      late.unref()
      call.end()
    })
  }

  #account(name: string): Promise<string> {
    return readFile(join(this.#options.accountFolder ?? ACCOUNT, name), 'utf8')
  }
}

/** Throws `config.invalid`. */
export function refuseOutsideCluster(): void {
  apiOfCluster()
}

function apiOfCluster(): { readonly host: string; readonly port: number } {
  const host = process.env['KUBERNETES_SERVICE_HOST']
  if (host === undefined) {
    throw new BatonError(
      'config.invalid',
      '--discovery kubernetes: this process does not run in a Kubernetes cluster (KUBERNETES_SERVICE_HOST is not set)',
    )
  }
  return { host, port: Number(process.env['KUBERNETES_SERVICE_PORT'] ?? 443) }
}

/**
 * Searches each piece for the end of a line only once, because the list of a large cluster is one line of many
 * megabytes.
 */
class AnswerLines {
  readonly #onLine: (line: string) => void
  #line: string[] = []
  #length = 0

  constructor(onLine: (line: string) => void) {
    this.#onLine = onLine
  }

  take(piece: string): void {
    let from = 0
    for (let to = piece.indexOf('\n'); to !== -1; to = piece.indexOf('\n', from)) {
      this.#add(piece.slice(from, to))
      this.end()
      from = to + 1
    }
    this.#add(piece.slice(from))
  }

  end(): void {
    const line = this.#line.join('')
    this.#line = []
    this.#length = 0
    if (line !== '') this.#onLine(line)
  }

  #add(piece: string): void {
    this.#line.push(piece)
    this.#length += piece.length
    if (this.#length > LINE_LENGTH_MAX)
      throw new Error('the answer of the Kubernetes API is too long')
  }
}
