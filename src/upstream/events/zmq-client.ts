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

/** A publisher listens on `tcp://*:5557`; from here that port is at the engine's host. */
export function endpointAt(endpoint: string, host: string): string {
  const match = /^(?<scheme>tcp:\/\/)(?<host>\*|0\.0\.0\.0|\[::\]|::)(?<port>:\d+)$/.exec(endpoint)
  if (match?.groups === undefined) {
    if (/^(tcp|ipc):\/\/.+/.test(endpoint)) return endpoint
    throw new BatonError('config.invalid', `KV events at ${endpoint}: expected tcp://host:port`)
  }
  const shown = host.includes(':') ? `[${host}]` : host
  return `${match.groups['scheme']}${shown}${match.groups['port']}`
}
