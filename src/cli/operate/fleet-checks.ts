/**
 * What `baton doctor` reads off a fleet: versions, connections, checksums, KV events, disaggregation, overload.
 */
import { workerAddress } from '../../frontend/index.ts'
import type { FleetView, ModelView, WorkerView } from '../../frontend/index.ts'
import { counted, fault, ok, warning } from './finding.ts'
import type { Finding } from './finding.ts'
import { shortId } from './top-screen.ts'

export function fleetChecks(fleet: FleetView): readonly Finding[] {
  return [
    ...(fleet.draining
      ? [warning('frontend', 'shuts down and admits nothing new', 'send clients to another one')]
      : []),
    discoveryState(fleet),
    ...(fleet.notes ?? []).map((text) =>
      warning('upstreams', text, 'start it, or look into its log; it is tried all the time'),
    ),
    ...membership(fleet),
    ...versions(fleet),
    ...transfers(fleet),
    ...fleet.models.flatMap(modelChecks),
  ]
}

function discoveryState({ discoveryFault }: FleetView): Finding {
  return discoveryFault === null
    ? ok('discovery', 'reachable')
    : fault(
        'discovery',
        `unreachable, known workers stay in use: ${discoveryFault}`,
        'bring it back; workers that join or leave now are not heard of',
      )
}

function membership({ models }: FleetView): Finding[] {
  if (models.length > 0) return []
  const advice = 'start workers with the same --discovery, and look into their logs'
  return [fault('workers', 'none has registered', advice)]
}

/** A fleet of two versions works for one minor version back. */
function versions({ version, models }: FleetView): Finding[] {
  const workers = models.flatMap((model) => model.workers)
  if (workers.length === 0) return []
  const others = workers.filter((worker) => worker.version !== version)
  if (others.length === 0) return [ok('versions', `all are ${version}`)]
  const names = [...new Set(others.map((worker) => worker.version))].join(', ')
  const text = `the frontend is ${version}, ${others.length} of ${workers.length} workers are ${names}`
  const isFar = others.some((worker) => minorsApart(version, worker.version) > 1)
  const advice = 'finish the rolling update; more than one minor version apart is not tested'
  return [isFar ? fault('versions', text, advice) : warning('versions', text, advice)]
}

function minorsApart(left: string, right: string): number {
  const [leftMajor = 0, leftMinor = 0] = left.split('.').map(Number)
  const [rightMajor = 0, rightMinor = 0] = right.split('.').map(Number)
  return leftMajor === rightMajor ? Math.abs(leftMinor - rightMinor) : Number.POSITIVE_INFINITY
}

function modelChecks(model: ModelView): Finding[] {
  const serving = model.workers.filter(({ state }) => state === 'serving')
  return [
    model.ready
      ? ok(model.name, `served by ${counted(serving.length + model.workersNotListed, 'worker')}`)
      : fault(model.name, `cannot be served: ${model.reason ?? ''}`, READY_ADVICE),
    ...model.workers.filter(({ state }) => state !== 'serving').map(notServing),
    ...kvEvents(model),
    ...disaggregation(model),
    ...overload(model, serving),
    ...model.warnings.map((text) => warning(model.name, text, 'see docs/routing.md and /health')),
  ]
}

const READY_ADVICE = 'start the workers that are missing; /health says which role'

function notServing(worker: WorkerView): Finding {
  const { workerId, state, reason = '' } = worker
  const name = `worker ${shortId(workerId)} at ${workerAddress(worker)}`
  if (state === 'refused') {
    return fault(
      'checksums',
      `${name} gets no requests: ${reason}`,
      'start it with the same model files, block size and context as the others, or under another name',
    )
  }
  return fault('connections', `${name}: ${reason}`, connectionAdvice(reason))
}

/** By the words of the refusal: who reads this has only those. */
export function connectionAdvice(reason: string): string {
  if (/secret|authenticat|proof/i.test(reason)) return 'give both sides the same --wire-secret'
  if (/certificate|tls|ssl/i.test(reason)) {
    return 'use certificates of one --tls-ca on both sides, or TLS on neither'
  }
  if (/refused|unreachable|timed? ?out|ETIMEDOUT|EHOSTUNREACH/i.test(reason)) {
    return 'is the process alive, does --advertise-host name an address that the frontend reaches, is the port open in the firewall?'
  }
  if (/version/i.test(reason)) return 'update the older side'
  return "look into the worker's log"
}

function kvEvents({ name, prefill, decode }: ModelView): Finding[] {
  const silent = prefill.kvEventWorkersSilent + decode.kvEventWorkersSilent
  const seen = prefill.kvEventWorkers + decode.kvEventWorkers
  if (silent > 0) {
    return [
      fault(
        'kv events',
        `${name}: ${counted(silent, 'worker')} sent none although there were prompts enough`,
        'check the event endpoint of the engine (docs/engine-vllm.md); routing guesses what they hold',
      ),
    ]
  }
  return seen === 0 ? [] : [ok('kv events', `${name}: they come from ${counted(seen, 'worker')}`)]
}

/** Of all models: a transfer is counted where its request ends. */
function transfers({ sums, models }: FleetView): Finding[] {
  const { kvTransfers, kvRecomputed } = sums
  const notMoved = models.reduce((sum, { decode }) => sum + decode.kvNotMoved, 0)
  const moved = models.reduce((sum, { decode }) => sum + decode.kvMoved, 0)
  const bad = kvRecomputed + notMoved
  const all = kvTransfers + notMoved + moved
  if (all === 0) return []
  const text = `KV was not used in ${bad} of ${all} hand-overs`
  if (bad <= TRANSFERS_BAD_SHARE * all) return [ok('hand-over', text)]
  return [
    fault(
      'hand-over',
      `${text}: decode workers compute prompts again`,
      'can decode workers reach the KV port of prefill workers? Their logs name the reason',
    ),
  ]
}

const TRANSFERS_BAD_SHARE = 0.05

function disaggregation({
  name,
  disaggregation: { state, requests, disaggregated },
}: ModelView): Finding[] {
  if (state === 'disabled' || state === 'pending') return []
  if (state === 'unavailable') {
    return [
      warning(
        'prefill',
        `${name}: no prefill worker is registered, decode workers do both`,
        'start one',
      ),
    ]
  }
  if (requests < 20 || disaggregated > 0) {
    return [ok('prefill', `${name}: ${disaggregated} of ${requests} requests were disaggregated`)]
  }
  return [
    warning(
      'prefill',
      `${name}: none of ${requests} requests was disaggregated`,
      'baton explain <request id> says why for one; short prompts stay where they are by design',
    ),
  ]
}

function overload({ name, prefill, decode }: ModelView, serving: readonly WorkerView[]): Finding[] {
  const queued = prefill.queuedRequests + decode.queuedRequests
  const full = serving.filter(({ ranks }) => ranks.length > 0 && ranks.every((rank) => rank.full))
  const refused = prefill.refusals + decode.refusals
  const advice = 'add workers of that role, or bound clients by key (docs/keys.md)'
  if (queued > 0 && full.length > 0 && full.length === serving.length) {
    return [
      fault(
        'overload',
        `${name}: all workers are full, ${counted(queued, 'request')} waiting`,
        advice,
      ),
    ]
  }
  if (queued > 0 || full.length > 0) {
    return [
      warning(
        'overload',
        `${name}: ${counted(full.length, 'worker')} full, ${counted(queued, 'request')} waiting`,
        advice,
      ),
    ]
  }
  return refused === 0
    ? []
    : [
        warning(
          'overload',
          `${name}: ${refused} requests have been refused since the start`,
          advice,
        ),
      ]
}
