/**
 * Opens the keys of the HTTP port from the place that `--keys` names: a file, its JSON, or a bucket of NATS.
 */
import { BatonError } from '../../base/index.ts'
import { describeDiscovery, parseNatsAddress } from '../../discovery/index.ts'
import type { NatsAddress } from '../../discovery/index.ts'
import {
  createLogger,
  followKeyBucket,
  isWorldWritable,
  keyBucket,
  KeyBook,
  keyFile,
} from '../../host/index.ts'
import type { KeyStore } from '../../host/index.ts'
import { KeyBucketNews } from './key-bucket-news.ts'
import type { ServeConfig } from '../options/serve-config.ts'

export interface OpenKeys {
  readonly book: KeyBook
  /** Absent: the keys are in no bucket. */
  readonly news?: KeyBucketNews
  close(): Promise<void>
}

type KeysConfig = Pick<ServeConfig, 'keys' | 'discovery' | 'logLevel'>

/** Null: no keys are required. Rejects with `config.invalid` or `discovery.unavailable`. */
export async function openKeys(config: KeysConfig): Promise<OpenKeys | null> {
  const { keys, discovery, logLevel } = config
  if (keys === null) return null
  const logger = createLogger(logLevel)
  const onFault = ({ message }: BatonError): void =>
    logger.error({ message }, 'the keys could not be reloaded, the previous keys stay in use')
  const address = keys.trim() === FLEETS_OWN ? natsOfFleet(discovery) : natsAddress(keys, '--keys')
  if (address === null) {
    const book = KeyBook.open(keys, onFault)
    if (isWorldWritable(keys)) {
      logger.warn(
        { file: keys },
        `every user of this machine can add keys to this file: chmod 600 ${keys}`,
      )
    }
    return { book, close: async () => book.close() }
  }
  const news = new KeyBucketNews(logger)
  const open = await followKeyBucket(address, {
    fault: onFault,
    away: (why) => news.away(why),
    back: () => news.back(),
    lost: () => news.lost(),
    replaced: (missing) => news.replaced(missing),
  })
  const where = describeDiscovery(address)
  if (open.book.size === 0)
    logger.warn({ where }, `there are no keys yet, so every call is refused`)
  return { ...open, news }
}

/** `place`: the value of `baton keys --file`, a file or an address of NATS. */
export async function openKeyStore(place: string): Promise<KeyStore> {
  const address = natsAddress(place, '--file')
  return address === null ? keyFile(place) : await keyBucket(address)
}

/** The value of `--keys` that means the fleet's own NATS server. */
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
