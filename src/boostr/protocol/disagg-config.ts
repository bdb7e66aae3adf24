/**
 * The roles in a fleet of the dialect `boostr`: ranks by role, and the limit for KV payloads.
 *
 * The original accepts any lists; here a fleet that cannot work is refused before it starts.
 */
import { BatonError } from '../../base/index.ts'

export interface DisaggConfig {
  readonly prefillWorkers: readonly number[]
  readonly decodeWorkers: readonly number[]
  readonly routerRank: number
  /** A larger KV payload is refused by sender and receiver; exactly this size is accepted. */
  readonly maxKvTransferBytes: number
}

const RANK_MAX = 0xffffffff

/** Validates and freezes. Throws `config.invalid` that names the field. */
export function createDisaggConfig(config: DisaggConfig): DisaggConfig {
  const { prefillWorkers, decodeWorkers, routerRank, maxKvTransferBytes } = config
  expectRanks('prefillWorkers', prefillWorkers)
  expectRanks('decodeWorkers', decodeWorkers)
  expectRanks('routerRank', [routerRank])
  const all = [...prefillWorkers, ...decodeWorkers, routerRank]
  const twice = all.find((rank, i) => all.indexOf(rank) !== i)
  if (twice !== undefined) throw invalid(`rank ${twice} has more than one role`, 'ranks')
  if (!Number.isSafeInteger(maxKvTransferBytes) || maxKvTransferBytes < 1) {
    throw invalid('maxKvTransferBytes must be a positive integer', 'maxKvTransferBytes')
  }
  return Object.freeze({
    prefillWorkers: Object.freeze([...prefillWorkers]),
    decodeWorkers: Object.freeze([...decodeWorkers]),
    routerRank,
    maxKvTransferBytes,
  })
}

function expectRanks(name: string, ranks: readonly number[]): void {
  if (ranks.length === 0) throw invalid(`${name} is empty`, name)
  for (const rank of ranks) {
    if (Number.isInteger(rank) && rank >= 0 && rank <= RANK_MAX) continue
    throw invalid(`${name} contains ${rank}, expected a rank (u32)`, name)
  }
}

function invalid(message: string, option: string): BatonError {
  return new BatonError('config.invalid', message, { data: { option } })
}
