/**
 * Provides the list of upstreams and its changes: the given ones, a file that is read again, and the addresses of a
 * DNS name.
 *
 * While a list cannot be read (an invalid file, an unavailable name server) the last valid one stays in use.
 */
import { lookup } from 'node:dns/promises'
import { isIPv6 } from 'node:net'
import { parse as parseYaml } from 'yaml'
import { BatonError } from '../../base/index.ts'
import { readSmallFile } from '../../os/index.ts'
import { upstreamKey, upstreamsOf } from './upstream-spec.ts'
import type { UpstreamSpec } from './upstream-spec.ts'

interface UpstreamSourceOptions {
  readonly given: readonly UpstreamSpec[]
  /** YAML, JSON, or one address per line. */
  readonly filePath?: string
  readonly everyMs: number
  /** Called at once and after every change, with the whole list. */
  readonly onList: (list: readonly UpstreamSpec[]) => void
  readonly onFault: (error: unknown) => void
}

export class UpstreamSource {
  readonly #options: UpstreamSourceOptions
  readonly #addresses = new Map<string, readonly UpstreamSpec[]>()
  #fromFile: readonly UpstreamSpec[] = []
  #told = ''
  #timer: NodeJS.Timeout | null = null
  #isClosed = false

  constructor(options: UpstreamSourceOptions) {
    this.#options = options
  }

  /** Resolves when the first list was reported. Rejects when the file cannot be read at all. */
  async start(): Promise<void> {
    const { filePath } = this.#options
    if (filePath !== undefined) this.#fromFile = await readList(filePath)
    await this.#look(false)
    this.#arm()
  }

  close(): void {
    this.#isClosed = true
    if (this.#timer !== null) clearTimeout(this.#timer)
  }

  get #changes(): boolean {
    const { filePath, given } = this.#options
    return filePath !== undefined || [...given, ...this.#fromFile].some(({ isDns }) => isDns)
  }

  #arm(): void {
    if (this.#isClosed || !this.#changes) return
    this.#timer = setTimeout(() => void this.#tick(), this.#options.everyMs)
    this.#timer.unref()
  }

  async #tick(): Promise<void> {
    await this.#look(true)
    this.#arm()
  }

  async #look(readsFile: boolean): Promise<void> {
    const { filePath, given, onFault, onList } = this.#options
    if (readsFile && filePath !== undefined) {
      try {
        // Waiting for a pipe would stop all streams.
        this.#fromFile = await readList(filePath, { silentMs: 0 })
      } catch (error) {
        onFault(error)
      }
    }
    const lists = await Promise.all([...given, ...this.#fromFile].map((spec) => this.#expand(spec)))
    const unique = new Map(lists.flat().map((spec) => [upstreamKey(spec), spec]))
    const key = [...unique.keys()].toSorted().join('\n')
    if (this.#isClosed || (key === this.#told && readsFile)) return
    this.#told = key
    onList([...unique.values()])
  }

  async #expand(spec: UpstreamSpec): Promise<readonly UpstreamSpec[]> {
    if (spec.isDns !== true) return [spec]
    const { isDns: _isDns, ...rest } = spec
    const url = new URL(spec.url)
    try {
      const found = await lookup(url.hostname, { all: true })
      const list = found.map(({ address }) => {
        const each = new URL(spec.url)
        each.hostname = isIPv6(address) ? `[${address}]` : address
        return { ...rest, url: each.href.replace(/\/$/, ''), hostName: url.hostname }
      })
      this.#addresses.set(spec.url, list)
      return list
    } catch (error) {
      this.#options.onFault(error)
      return this.#addresses.get(spec.url) ?? []
    }
  }
}

async function readList(
  filePath: string,
  limits: { readonly silentMs?: number } = {},
): Promise<readonly UpstreamSpec[]> {
  let listed: unknown
  try {
    listed = parseYaml(readSmallFile(filePath, limits))
  } catch (cause) {
    const [why] = BatonError.from(cause).message.split('\n')
    throw new BatonError('config.invalid', `--upstream-file: ${why}`, { cause })
  }
  return upstreamsOf(listed)
}
