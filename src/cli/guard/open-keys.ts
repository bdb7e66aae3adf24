/**
 * The keys of the HTTP port from wherever `--keys` says: a file, its JSON, or a bucket of NATS.
 */
import { BatonError } from '../../base/index.ts'
import { describeDiscovery, parseNatsAddress } from '../../discovery/index.ts'
import type { NatsAddress } from '../../discovery/index.ts'
import { createLogger, followKeyBucket, keyBucket, KeyBook, keyFile } from '../../host/index.ts'
import type { KeyStore } from '../../host/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'

export interface OpenKeys {
  readonly book: KeyBook
  close(): Promise<void>
}

type KeysConfig = Pick<ServeConfig, 'keys' | 'discovery' | 'logLevel'>

/** Null: none are asked for. Rejects with `config.invalid` or `discovery.unavailable`. */
export async function openKeys(config: KeysConfig): Promise<OpenKeys | null> {
  const { keys, discovery, logLevel } = config
  if (keys === null) return null
  const logger = createLogger(logLevel)
  const kept = 'the previous ones stay in use'
  const onFault = ({ message }: BatonError): void =>
    logger.error({ message }, `keys were not read again, ${kept}`)
  const address = keys.trim() === FLEETS_OWN ? natsOfFleet(discovery) : natsAddress(keys, '--keys')
  if (address === null) {
    const book = KeyBook.open(keys, onFault)
    return { book, close: async () => book.close() }
  }
  const open = await followKeyBucket(address, {
    fault: onFault,
    away: (why) => logger.warn({ why }, `the keys' bucket is unreachable, ${kept}`),
    back: () => logger.warn("the keys' bucket is reachable again"),
  })
  const where = describeDiscovery(address)
  if (open.book.size === 0) logger.warn({ where }, `no key is there yet, so nobody may call`)
  return open
}

/** `place`: of `baton keys --file`, a file or NATS. */
export async function openKeyStore(place: string): Promise<KeyStore> {
  const address = natsAddress(place, '--file')
  return address === null ? keyFile(place) : await keyBucket(address)
}

/** The server where the fleet meets. */
const FLEETS_OWN = 'nats'

function natsAddress(text: string, option: string): NatsAddress | null {
  return /^\s*(nats|tls):\/\//.test(text) ? parseNatsAddress(text.trim(), option) : null
}

function natsOfFleet(discovery: KeysConfig['discovery']): NatsAddress {
  if (discovery?.kind === 'nats') return discovery
  throw new BatonError(
    'config.invalid',
    '--keys nats needs --discovery nats://…: name the server itself, --keys nats://<host>:4222, or give a file',
  )
}
