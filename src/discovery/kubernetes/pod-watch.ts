/**
 * Keeps the addresses of the pods that a selector matches up to date with one watch, instead of polling.
 *
 * list ──▶ watch from its version ──▶ (ends) watch from the last version seen …
 * ▲                │ 410: the version is too old; or many watches were silent
 * └────────────────┘
 *
 * A lost connection or a refusal is retried with growing pauses. Until the API answers, `addresses` rejects and the
 * caller keeps its known addresses. Needs a ServiceAccount that may list and watch pods.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import type { HostPort } from '../host-port.ts'
import { KubernetesApi } from './kubernetes-api.ts'
import type { KubernetesOptions } from './kubernetes-api.ts'
import { podAddress } from './pod-address.ts'

const SELECTOR = 'app=baton,role in (prefill,decode,agg)'
const LIST_MS = 5_000
/**
 * The API ends a watch after this time, and sends a bookmark before. A watch of pods that do not change is otherwise
 * silent, so only a missing end shows that the API, or a load balancer before it, hangs. Another watch costs no list.
 */
const WATCH_SECONDS = 30
/**
 * So many watches in a row without a word are followed by a list: the API accepts a watch from a version that a cluster
 * restored from a backup has not reached yet, and then says nothing of the changes before that.
 */
const SILENT_WATCHES_MAX = 10
const PAUSE_MS = { least: 200, most: 5_000 }
const GONE = 410

export class PodWatch {
  readonly #api: KubernetesApi
  readonly #selector: string
  readonly #pods = new Map<string, HostPort | null>()
  readonly #ending = new AbortController()
  #first: Promise<void> | null = null
  #fault: BatonError | null = null
  readonly #listMs: number
  readonly #watchSeconds: number
  #version = ''
  #silentWatches = 0

  constructor(options: KubernetesOptions) {
    this.#api = new KubernetesApi(options)
    this.#selector = options.selector ?? SELECTOR
    this.#listMs = options.listMs ?? LIST_MS
    this.#watchSeconds = options.watchSeconds ?? WATCH_SECONDS
  }

  /**
   * Addresses of running pods that are not being deleted. Rejects with `discovery.unavailable` while the API is
   * unavailable.
   */
  async addresses(): Promise<readonly HostPort[]> {
    this.#first ??= this.#begin()
    await this.#first
    if (this.#fault !== null) throw this.#fault
    return [...this.#pods.values()].filter((address) => address !== null)
  }

  close(): void {
    this.#ending.abort()
  }

  /** Resolves after the first answer or failure; the watch continues in the background. */
  async #begin(): Promise<void> {
    await new Promise<void>((resolve) => void this.#run(resolve))
  }

  async #run(onFirst: () => void): Promise<void> {
    const { signal } = this.#ending
    let pauseMs = PAUSE_MS.least
    while (!signal.aborted) {
      try {
        if (this.#version === '') {
          await this.#list()
          onFirst()
        }
        await this.#watch(() => {
          // Cleared only by an answer: until then the API counts as unavailable and is asked less and less often.
          this.#fault = null
          pauseMs = PAUSE_MS.least
        })
      } catch (thrown) {
        const text = `the Kubernetes API does not list the pods: ${BatonError.from(thrown).message}`
        this.#fault = new BatonError('discovery.unavailable', text, { cause: thrown })
        onFirst()
        await pause(pauseMs * (0.5 + Math.random()))
        pauseMs = Math.min(PAUSE_MS.most, 2 * pauseMs)
      }
    }
  }

  async #list(): Promise<void> {
    let text = ''
    const path = await this.#path('resourceVersion=0')
    const onLine = (line: string): void => void (text += line)
    const { signal } = this.#ending
    const headMs = this.#listMs
    const status = await this.#api.ask({ path, onLine, headMs, silenceMs: headMs, signal })
    if (status !== 200) throw refusal(status)
    const list: unknown = JSON.parse(text)
    const items = isRecord(list) ? list['items'] : null
    if (!Array.isArray(items))
      throw new BatonError('transport.protocol', 'the answer is not a list of pods')
    this.#pods.clear()
    for (const pod of items as unknown[]) this.#take(pod)
    this.#version = versionOf(list)
    this.#silentWatches = 0
  }

  /** Resolves when the watch has ended in order, or its version is too old. */
  async #watch(onOpen: () => void): Promise<void> {
    const version = encodeURIComponent(this.#version)
    const path = await this.#path(
      `watch=true&allowWatchBookmarks=true&timeoutSeconds=${this.#watchSeconds}&resourceVersion=${version}`,
    )
    let isSilent = true
    const onLine = (line: string): void => {
      isSilent = false
      this.#onEvent(JSON.parse(line) as unknown)
    }
    const { signal } = this.#ending
    const headMs = this.#listMs
    const silenceMs = this.#watchSeconds * 1_000 + headMs
    const asked = this.#api.ask({ path, onOpen, onLine, headMs, silenceMs, signal })
    const status = await asked.catch((thrown: unknown) => {
      // An error event has ended the request.
      if (this.#version === '') return GONE
      throw thrown
    })
    // The version is too old, or was not reached yet by a cluster restored from a backup; a new list is needed.
    if (status !== 200) this.#version = ''
    if (status !== 200 && status !== GONE) throw refusal(status)
    this.#silentWatches = isSilent ? this.#silentWatches + 1 : 0
    if (this.#silentWatches >= SILENT_WATCHES_MAX) this.#version = ''
    // Pause, because a server may end every watch at once.
    await pause(PAUSE_MS.least)
  }

  #onEvent(event: unknown): void {
    if (!isRecord(event)) return
    const { type, object } = event
    if (type === 'ERROR') {
      // After any error, usually 410, a new list is needed. A server may keep the connection open afterwards.
      this.#version = ''
      throw new Error('the watch has ended with an error event')
    }
    if (type === 'DELETED') this.#pods.delete(keyOf(object))
    else if (type === 'ADDED' || type === 'MODIFIED') this.#take(object)
    // After an error no further event is used until the next list.
    const version = versionOf(object)
    if (version !== '' && this.#version !== '') this.#version = version
  }

  #take(pod: unknown): void {
    const key = keyOf(pod)
    if (key !== '') this.#pods.set(key, podAddress(pod))
  }

  async #path(query: string): Promise<string> {
    const namespace = encodeURIComponent(await this.#api.namespace())
    const selector = encodeURIComponent(this.#selector)
    return `/api/v1/namespaces/${namespace}/pods?labelSelector=${selector}&${query}`
  }
}

function refusal(status: number): Error {
  const mayNot = status === 401 || status === 403
  const why = mayNot ? ': the ServiceAccount needs permission to list and watch pods' : ''
  return new Error(`status ${status}${why}`)
}

function metadataOf(object: unknown): Readonly<Record<string, unknown>> {
  const metadata = isRecord(object) ? object['metadata'] : null
  return isRecord(metadata) ? metadata : {}
}

function versionOf(object: unknown): string {
  const { resourceVersion } = metadataOf(object)
  return typeof resourceVersion === 'string' ? resourceVersion : ''
}

/** A pod that was created again under the same name is another pod. */
function keyOf(pod: unknown): string {
  const { uid, name } = metadataOf(pod)
  return typeof uid === 'string' ? uid : typeof name === 'string' ? name : ''
}

function pause(delayMs: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, delayMs).unref()
  })
}
