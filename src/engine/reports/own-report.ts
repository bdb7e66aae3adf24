/**
 * What an engine reports about its blocks and load, as the worker's own: a copy that the engine cannot change any more,
 * of which each field was read once and has the right form.
 *
 * It is sent in frames that all streams of the worker share. A list that said another length while it is written would
 * end all of them.
 */
import { BatonError } from '../../base/index.ts'
import type { KvEvent, LoadReport } from '../../kv/index.ts'
import { eventFault, reportFault } from './report-faults.ts'
import { isTypedArray, ordinaryArray, typedArrayCopy, typedArrayLength } from '../typed-array.ts'

/** A copy of so few numbers is faster than a look at what kind of array it is. */
const COPIED_LENGTH_MAX = 16

/** The event, or what is wrong with it. */
export function ownKvEvent(event: KvEvent): KvEvent | string {
  return read('an event', event, ownEvent, eventFault)
}

/** The report, or what is wrong with it. */
export function ownLoadReport(report: LoadReport): LoadReport | string {
  return read('a load report', report, ownLoad, reportFault)
}

export function kvEventFault(event: KvEvent): string | null {
  const own = ownKvEvent(event)
  return typeof own === 'string' ? own : null
}

export function loadReportFault(report: LoadReport): string | null {
  const own = ownLoadReport(report)
  return typeof own === 'string' ? own : null
}

/** A getter or proxy of the engine may throw. */
function read<Report>(
  what: string,
  report: Report,
  copy: (report: Report) => Report,
  faultOf: (own: Report) => string | null,
): Report | string {
  if (typeof report !== 'object' || report === null) return `${what} is not a record`
  try {
    const own = copy(report)
    return faultOf(own) ?? own
  } catch (thrown) {
    return `${what} cannot be read: ${BatonError.from(thrown).message}`
  }
}

function ownEvent(event: KvEvent): KvEvent {
  const { kind } = event
  switch (kind) {
    case 'stored': {
      const { parent, hashes, localHashes, tier } = event
      return {
        kind,
        parent: ownPair(parent),
        hashes: ownNumbers(hashes),
        localHashes: ownNumbers(localHashes),
        tier,
      }
    }
    case 'removed':
      return { kind, hashes: ownNumbers(event.hashes), tier: event.tier }
    default:
      return { kind }
  }
}

function ownLoad(report: LoadReport): LoadReport {
  const { dpRank, activeBlocks, totalBlocks } = report
  const { runningRequests, queuedRequests, prefillTokensInFlight } = report
  return {
    dpRank,
    activeBlocks,
    totalBlocks,
    runningRequests,
    queuedRequests,
    prefillTokensInFlight,
  }
}

function ownPair(parent: readonly [number, number] | null): readonly [number, number] | null {
  if (!Array.isArray(parent)) return parent
  const { length } = parent as readonly unknown[]
  // A list of another length is refused as well as none.
  return length === 2 ? [parent[0] as number, parent[1] as number] : ([] as never)
}

/** What is not a `Uint32Array` stays as it is, and the check refuses it. */
function ownNumbers(numbers: Uint32Array): Uint32Array {
  if (!isTypedArray(numbers, 'Uint32Array')) return numbers
  return typedArrayLength(numbers) <= COPIED_LENGTH_MAX
    ? typedArrayCopy(numbers, 'Uint32Array')
    : ordinaryArray(numbers, 'Uint32Array')
}
