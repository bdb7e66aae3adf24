/** Refuses a stream of NATS that has the name of a bucket of Baton and would lose what is written to it. */
import type { KV } from '@nats-io/kv'
import { BatonError } from '../../base/index.ts'

/** `keepMs`: an entry must stay for so long without being written again. Throws `config.invalid`. */
export async function checkBucket(made: KV, keepMs: number): Promise<void> {
  const { bucket, streamInfo } = await made.status()
  const { name, subjects, mirror, max_age: maxAge, no_ack: isUnconfirmed } = streamInfo.config
  if (mirror === undefined && !subjects.includes(`$KV.${bucket}.>`)) {
    throw unfit(`NATS has a stream ${name} that is not a bucket of Baton`, 'remove it')
  }
  // In nanoseconds; 0: never.
  const ageMs = maxAge === 0 ? Infinity : maxAge / 1e6
  if (ageMs < keepMs) {
    const needed = keepMs === Infinity ? '0 (never)' : `${keepMs / 1000}s or more`
    throw unfit(
      `the stream ${name} of NATS deletes entries after ${ageMs / 1000} s`,
      `set its max_age to ${needed}`,
    )
  }
  if (isUnconfirmed) {
    throw unfit(`the stream ${name} of NATS confirms no write`, 'set its no_ack to false')
  }
}

function unfit(what: string, remedy: string): BatonError {
  return new BatonError('config.invalid', `${what}: ${remedy}, or choose another prefix`)
}
