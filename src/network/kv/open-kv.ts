/**
 * Opens the ends of the KV transport for a worker's mode: a prefill worker offers, a decode worker pulls.
 */
import type { DisaggregationMode } from '../../request/index.ts'
import type { KvEnds } from '../../worker/index.ts'
import { KvTcpClient } from './kv-tcp-client.ts'
import { KvTcpServer } from './kv-tcp-server.ts'
import type { WireTls } from '../link/wire-tls.ts'

export interface OpenKv {
  readonly ends: KvEnds
  /** Idempotent. */
  close(): Promise<void>
}

interface KvTcpEndsOptions {
  readonly host: string
  /** The host name for other machines, when it is not `host`. */
  readonly advertisedHost?: string
  /** The port for other machines, when it is not the listening port. */
  readonly advertisedPort?: number
  /** 0: any free port. */
  readonly port?: number
  readonly secret?: string
  readonly tls?: WireTls
  /** Default true. False: blocks are not verified after the transfer. */
  readonly checksum?: boolean
}

export async function openKvTcp(
  mode: DisaggregationMode,
  options: KvTcpEndsOptions,
): Promise<OpenKv> {
  if (mode === 'prefill') {
    const server = await KvTcpServer.listen(options)
    return { ends: { server }, close: () => server.close() }
  }
  const { secret, tls } = options
  const client = new KvTcpClient({
    ...(secret === undefined ? {} : { secret }),
    ...(tls === undefined ? {} : { tls }),
  })
  return { ends: { client }, close: () => client.close() }
}
