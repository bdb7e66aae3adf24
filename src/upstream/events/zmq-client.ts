/**
 * The part of the package `zeromq` that is used to read KV events; it is optional, and loaded when an engine
 * publishes some.
 */
import { BatonError } from '../../base/index.ts'

export interface ZmqSubscriber extends AsyncIterable<readonly Uint8Array[]> {
  connect(address: string): void
  subscribe(topic: string): void
  close(): void
  readonly events: { on(event: 'connect' | 'disconnect', listener: () => void): void }
}

export interface ZmqDealer {
  connect(address: string): void
  send(frames: readonly Uint8Array[]): Promise<void>
  receive(): Promise<readonly Uint8Array[]>
  close(): void
}

export interface ZmqClientModule {
  readonly Subscriber: new (options: Readonly<Record<string, unknown>>) => ZmqSubscriber
  readonly Dealer: new (options: Readonly<Record<string, unknown>>) => ZmqDealer
}

const PORT_MAX = 65_535

/** Null when the package is not installed. */
export async function loadZmqClient(): Promise<ZmqClientModule | null> {
  // The name is in a variable, because the package is optional and must not be needed to compile.
  const name = 'zeromq'
  try {
    return (await import(name)) as ZmqClientModule
  } catch {
    return null
  }
}

/**
 * Enabled only for IPv6: otherwise ZeroMQ would prefer the IPv6 address of a name with both kinds, where most
 * publishers do not listen.
 */
export function isIpv6(endpoint: string): boolean {
  return endpoint.includes('[')
}

/** As `endpointAt`; throws too if ZeroMQ refuses the endpoint. */
export function checkedEndpoint(zmq: ZmqClientModule, endpoint: string, host: string): string {
  const found = endpointAt(endpoint, host)
  const socket = new zmq.Dealer({ linger: 0, ipv6: isIpv6(found) })
  try {
    socket.connect(found)
  } finally {
    socket.close()
  }
  return found
}

/** A publisher listens on `tcp://*:5557`; from here that port is at the engine's host. */
export function endpointAt(endpoint: string, host: string): string {
  if (/^ipc:\/\/.+/.test(endpoint)) return endpoint
  const parts = /^tcp:\/\/(?<host>.+):(?<port>\d{1,5})$/.exec(endpoint)?.groups ?? {}
  const { host: named = '', port = '' } = parts
  if (Number(port) < 1 || Number(port) > PORT_MAX) {
    throw new BatonError('config.invalid', 'expected tcp://host:port')
  }
  if (!['*', '0.0.0.0', '[::]', '::'].includes(named)) return endpoint
  const shown = host.includes(':') ? `[${host}]` : host
  return `tcp://${shown}:${port}`
}
