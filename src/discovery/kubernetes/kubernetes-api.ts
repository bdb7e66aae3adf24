/**
 * Questions to the Kubernetes API of the cluster that this process runs in, as its ServiceAccount; the answer comes line by
 * line, as a watch has it.
 */
import { readFile } from 'node:fs/promises'
import { request } from 'node:https'
import { join } from 'node:path'
import { BatonError } from '../../base/index.ts'

export interface KubernetesOptions {
  /** Absent: the pod's own. */
  readonly namespace?: string
  readonly selector?: string
  /** Absent: as Kubernetes tells every pod. */
  readonly api?: { readonly host: string; readonly port: number }
  readonly accountFolder?: string
  /** A list that has not come by then is given up. Default 5 s. */
  readonly listMs?: number
}

interface Asked {
  readonly path: string
  /** The API answers with status 200; lines follow. */
  readonly onOpen?: () => void
  /** What it throws ends the question with it. */
  readonly onLine: (line: string) => void
  /** The head of the answer comes at once, that of a watch too: an API that has not sent it by then hangs. */
  readonly headMs: number
  /** Without a byte for so long the connection is given up. */
  readonly silenceMs: number
  readonly signal: AbortSignal
}

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const LINE_LENGTH_MAX = 64 * 1024 * 1024
/** A connection whose other side has gone without a word is found out by the system: a watch may be silent for long. */
const KEEP_ALIVE_MS = 15_000

export class KubernetesApi {
  readonly #options: KubernetesOptions

  constructor(options: KubernetesOptions) {
    this.#options = options
  }

  async namespace(): Promise<string> {
    return this.#options.namespace ?? (await this.#account('namespace')).trim()
  }

  /** Resolves with the status when the answer has ended; lines of another status than 200 are not told. */
  async ask({ path, onOpen, onLine, headMs, silenceMs, signal }: Asked): Promise<number> {
    // The token is renewed by the cluster: it is read each time.
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
      call.on('timeout', () => end(new Error('no answer in time')))
      call.on('error', end)
      const late = setTimeout(() => end(new Error('no answer in time')), headMs)
      late.unref()
      call.end()
    })
  }

  #account(name: string): Promise<string> {
    return readFile(join(this.#options.accountFolder ?? ACCOUNT, name), 'utf8')
  }
}

function apiOfCluster(): { readonly host: string; readonly port: number } {
  const host = process.env['KUBERNETES_SERVICE_HOST']
  if (host === undefined) {
    throw new BatonError('config.invalid', 'this process does not run in a Kubernetes cluster')
  }
  return { host, port: Number(process.env['KUBERNETES_SERVICE_PORT'] ?? 443) }
}

/** Looks for the end of a line in each piece once: the list of a large cluster is one line of many megabytes. */
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
    if (this.#length > LINE_LENGTH_MAX) throw new Error('an answer without an end')
  }
}
