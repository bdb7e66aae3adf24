/**
 * Checks what a program passes to a run. The laboratory's commands read traces and options that are right already; values
 * of a program would otherwise be run as something else, or never be sent, without a word.
 */
import { BatonError } from '../../base/index.ts'
import type { FleetConfig, FleetGroup } from './fleet-config.ts'
import { TRACE_BLOCK_TOKENS } from '../trace/trace-request.ts'
import type { TraceRequest } from '../trace/trace-request.ts'

const MODES: readonly unknown[] = ['agg', 'prefill', 'decode']
const WAITED_FOR: readonly unknown[] = ['sent', 'ended']

/** Throws `config.invalid` with the place of the value. */
export function checkFleet(config: FleetConfig): void {
  for (const [i, group] of config.workers.entries()) checkGroup(group, `workers[${i}]`)
  for (const [i, request] of config.trace.entries()) checkRequest(request, i)
  const { concurrency, frontends, migrationLimit, leaving, overhead } = config
  const { contextLength, peerDelayMs, sampleMs } = config
  if (concurrency !== undefined) whole(concurrency, 1, 'concurrency')
  if (frontends !== undefined) whole(frontends, 1, 'frontends')
  if (migrationLimit !== undefined) whole(migrationLimit, 0, 'migrationLimit')
  if (leaving !== undefined && !(leaving >= 0 && leaving <= 1))
    refuse('leaving', 'a share from 0 to 1', leaving)
  if (contextLength !== undefined) whole(contextLength, 1, 'contextLength')
  if (peerDelayMs !== undefined && peerDelayMs !== null) time(peerDelayMs, 'peerDelayMs')
  if (sampleMs !== undefined) time(sampleMs, 'sampleMs')
  if (overhead === undefined) return
  time(overhead.requestMs, 'overhead.requestMs')
  time(overhead.msPerToken, 'overhead.msPerToken')
}

function checkGroup({ mode, count, startupMs }: FleetGroup, place: string): void {
  oneOf(MODES, mode, `${place}.mode`)
  whole(count, 0, `${place}.count`)
  if (startupMs !== undefined) time(startupMs, `${place}.startupMs`)
}

/** A trace may have millions of requests, so that no name is built for a value that is right. */
function checkRequest(request: TraceRequest, index: number): void {
  const { atMs, inputTokens, outputTokens, hashIds, blockTokens = TRACE_BLOCK_TOKENS } = request
  const { after, delayMs = 0, waitsFor = [] } = request
  const place = (name: string) => (): string => `trace[${index}].${name}`
  time(atMs, place('atMs'))
  whole(inputTokens, 1, place('inputTokens'))
  whole(outputTokens, 1, place('outputTokens'))
  whole(blockTokens, 1, place('blockTokens'))
  // Without any id all prompts would be the same.
  if (hashIds.length === 0) refuse(place('hashIds'), 'one id per block', 'none')
  if (after !== undefined) earlier(after, index, place('after'))
  time(delayMs, place('delayMs'))
  for (const [i, each] of waitsFor.entries()) {
    earlier(each.request, index, place(`waitsFor[${i}].request`))
    oneOf(WAITED_FOR, each.on, place(`waitsFor[${i}].on`))
    time(each.delayMs, place(`waitsFor[${i}].delayMs`))
  }
}

type Place = string | (() => string)

/** What comes later, or is not there, would be waited for until the end. */
function earlier(request: number, index: number, place: Place): void {
  if (!Number.isSafeInteger(request) || request < 0 || request >= index)
    refuse(place, 'the index of an earlier request', request)
}

function oneOf(values: readonly unknown[], value: unknown, place: Place): void {
  if (!values.includes(value)) refuse(place, `one of ${values.join(', ')}`, value)
}

function whole(value: number, least: number, place: Place): void {
  if (!Number.isSafeInteger(value) || value < least)
    refuse(place, `a whole number ≥ ${least}`, value)
}

function time(value: number, place: Place): void {
  if (!Number.isFinite(value) || value < 0) refuse(place, 'a number ≥ 0', value)
}

function refuse(place: Place, wanted: string, value: unknown): never {
  const name = typeof place === 'string' ? place : place()
  throw new BatonError('config.invalid', `${name}: expected ${wanted}, got ${String(value)}`)
}
