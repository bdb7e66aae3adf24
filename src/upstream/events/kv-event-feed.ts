/**
 * The KV events of one server: a source for each of its ranks.
 */
import type { EngineMetric } from '../../engine/index.ts'
import { BatonError, messageOf } from '../../base/index.ts'
import type { KvEvent } from '../../kv/index.ts'
import { KvEventSource } from './kv-event-source.ts'
import type { KvEventSourceCounters } from './kv-event-source.ts'
import { checkedEndpoint, loadZmqClient } from './zmq-client.ts'
import type { ZmqClientModule } from './zmq-client.ts'

/** Where a rank publishes, as announced by the server or given by the user. */
export interface KvEventPlace {
  readonly dpRank: number
  readonly endpoint: string
  readonly replayEndpoint: string | null
  readonly topic: string
}

interface FeedOptions {
  readonly places: readonly KvEventPlace[]
  /** The server's host; replaces `*` in its addresses. */
  readonly host: string
  readonly blockTokens: number
  /** How many ranks the server reports. */
  readonly ranks: number
  readonly onEvents: (dpRank: number, events: readonly KvEvent[]) => void
  readonly onFault: (error: unknown) => void
  /** Events that exist are not used: says which and why. */
  readonly onUnused: (text: string) => void
}

export class KvEventFeed {
  readonly #sources: readonly KvEventSource[]

  private constructor(zmq: ZmqClientModule, options: FeedOptions) {
    const { places, host, ranks, ...rest } = options
    const { onUnused } = rest
    this.#sources = places.flatMap(({ dpRank, endpoint, replayEndpoint, topic }) => {
      if (dpRank >= ranks) {
        onUnused(`KV events of rank ${dpRank}: the server reports ${ranks} ranks, from 0 on`)
        return []
      }
      const told = (what: string, said: string): string | null => {
        try {
          return checkedEndpoint(zmq, said, host)
        } catch (thrown) {
          onUnused(`${what} of rank ${dpRank} cannot be used (${said}): ${messageOf(thrown)}`)
          return null
        }
      }
      const at = told('KV events', endpoint)
      if (at === null) return []
      const replayAt = replayEndpoint === null ? null : told('Replays of KV events', replayEndpoint)
      const place = { zmq, dpRank, topic, endpoint: at, replayEndpoint: replayAt }
      return [new KvEventSource({ ...rest, ...place })]
    })
  }

  /** No source can be used. */
  get isEmpty(): boolean {
    return this.#sources.length === 0
  }

  /**
   * Null: the server publishes none, or the package to read them is not installed, which is reported. A source that cannot be
   * used is left out.
   */
  static async open(
    options: FeedOptions,
    load: () => Promise<ZmqClientModule | null> = loadZmqClient,
  ): Promise<KvEventFeed | null> {
    if (options.places.length === 0) return null
    const zmq = await load()
    if (zmq !== null) return new KvEventFeed(zmq, options)
    options.onFault(
      new BatonError(
        'runtime.not_implemented',
        `${options.host} publishes KV events, but the package to read them is missing: run \`npm i zeromq@6.8.0\`; until then they are not used for routing`,
      ),
    )
    return null
  }

  start(): void {
    for (const source of this.#sources) source.start()
  }

  close(): void {
    for (const source of this.#sources) source.close()
  }

  metrics(): readonly EngineMetric[] {
    const all = this.#sources.map(({ counters }) => counters)
    const sum = (key: keyof KvEventSourceCounters): number =>
      all.reduce((total, counters) => total + counters[key], 0)
    const counter = (name: string, help: string, value: number): EngineMetric => ({
      name,
      help,
      kind: 'counter',
      value,
    })
    return [
      counter('kv_event_batches_total', 'Batches of KV events that were read', sum('batches')),
      counter('kv_event_gaps_total', 'Number of times that batches were missing', sum('gaps')),
      counter(
        'kv_event_restarts_total',
        'Number of times that the publisher restarted',
        sum('restarts'),
      ),
      counter(
        'kv_event_replays_total',
        'Number of times that batches were requested again',
        sum('replays'),
      ),
      counter('kv_event_losses_total', 'Gaps that could not be filled', sum('losses')),
      counter('kv_event_unreadable_total', 'Events that could not be parsed', sum('unreadable')),
      counter(
        'kv_event_left_out_total',
        'Events of other cache groups, tiers without tokens, or other block sizes',
        sum('leftOut') + sum('otherBlockSize'),
      ),
    ]
  }
}

/**
 * Parses `tcp://host:5557` or `tcp://host:5557;tcp://host:5558` (with replay), one for each rank, separated by
 * commas.
 */
export function kvEventPlaces(written: string): readonly KvEventPlace[] {
  return written
    .split(',')
    .map((entry) => entry.trim())
    .filter((entry) => entry !== '')
    .map((entry, dpRank) => {
      const [endpoint = '', replay] = entry.split(';')
      return { dpRank, endpoint, replayEndpoint: replay ?? null, topic: '' }
    })
}
