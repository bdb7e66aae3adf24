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
  readonly onLine: (line: string) => void
  /** The head of the answer comes at once, that of a watch too: an API that has not sent it by then hangs. */
  readonly headMs: number
  /** Without a byte for so long the connection is given up. */
  readonly silenceMs: number
  readonly signal: AbortSignal
}

const ACCOUNT = '/var/run/secrets/kubernetes.io/serviceaccount'
const LINE_BYTES_MAX = 64 * 1024 * 1024

export class KubernetesApi {
  readonly #options: KubernetesOptions

  constructor(options: KubernetesOptions) {
    this.#options = options
  }

  async namespace(): Promise<string> {
    return this.#options.namespace ?? (await this.#account('namespace')).trim()
  }

  /** Resolves with the status when the answer has ended; lines of another status than 200 are not told. */
  async ask({ path, onLine, headMs, silenceMs, signal }: Asked): Promise<number> {
    // The token is renewed by the cluster: it is read each time.
    const [token, ca] = await Promise.all([this.#account('token'), this.#account('ca.crt')])
    const { host, port } = this.#options.api ?? apiOfCluster()
    const headers = { authorization: `Bearer ${token.trim()}`, accept: 'application/json' }
    return await new Promise<number>((resolve, reject) => {
      const asked = { host, port, path, ca, headers, timeout: silenceMs, signal }
      const call = request(asked, (answer) => {
        clearTimeout(late)
        const status = answer.statusCode ?? 0
        let rest = ''
        answer.setEncoding('utf8')
        answer.on('data', (piece: string) => {
          if (status !== 200) return
          const lines = (rest + piece).split('\n')
          rest = lines.pop() ?? ''
          for (const line of lines) if (line !== '') onLine(line)
          if (rest.length > LINE_BYTES_MAX) call.destroy(new Error('an answer without an end'))
        })
        answer.on('error', reject)
        answer.on('end', () => {
          if (status === 200 && rest !== '') onLine(rest)
          resolve(status)
        })
      })
      call.on('timeout', () => call.destroy(new Error('no answer in time')))
      call.on('error', (error) => {
        clearTimeout(late)
        reject(error)
      })
      const late = setTimeout(() => call.destroy(new Error('no answer in time')), headMs)
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
