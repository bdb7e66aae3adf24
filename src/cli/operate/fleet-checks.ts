/**
 * What `baton doctor` checks in a fleet: versions, connections, checksums, KV events, disaggregation, overload.
 */
import type { ErrorCode } from '../../base/index.ts'
import { workerAddress } from '../../frontend/index.ts'
import type { FleetNote, FleetView, ModelView, WorkerView } from '../../frontend/index.ts'
import { CLOCK_MS_MAX } from './server-checks.ts'
import { counted, fault, ok, warning } from './finding.ts'
import type { Finding } from './finding.ts'
import { shortId } from './top-screen.ts'

export function fleetChecks(fleet: FleetView): readonly Finding[] {
  return [
    ...(fleet.draining
      ? [
          warning(
            'frontend',
            'is shutting down and accepts no new requests',
            'send clients to another frontend',
          ),
        ]
      : []),
    discoveryState(fleet),
    ...(fleet.notes ?? []).map(noteFinding),
    ...membership(fleet),
    ...versions(fleet),
    ...clocks(fleet),
    ...transfers(fleet),
    ...fleet.models.flatMap(modelChecks),
  ]
}

function noteFinding({ kind, text }: FleetNote): Finding {
  switch (kind) {
    case 'silent-worker':
      return warning('discovery', text, "the worker's log says why; check its way to discovery")
    case 'unanswered-address':
      return warning(
        'discovery',
        text,
        'the logs of that worker and of the frontend name the cause',
      )
    case 'forwarded-unchanged':
      return warning('upstreams', text, 'docs/forwarding.md says what does not apply to them')
    case 'kv-events-unused':
      return warning('upstreams', text, 'docs/engines-people-run.md says which events are read')
    case 'upstream-away':
      return warning('upstreams', text, 'start it, or read its log; Baton keeps trying to connect')
    case 'worker-away':
      return warning('workers', text, 'remove the cause; `baton serve` keeps starting it')
    case 'frontend-away':
      return warning('frontend', text, 'remove the cause; its parent process keeps starting it')
    case 'certificate-age':
      return warning('certificate', text, 'renew it in the same files; every process reads its own')
    case 'keys':
      return warning('keys', text, 'docs/keys.md says what a lost bucket means, and what to do')
    default:
      return warning('fleet', text, 'the logs of the frontend name the cause')
  }
}

function discoveryState({ discoveryFault }: FleetView): Finding {
  return discoveryFault === null
    ? ok('discovery', 'reachable')
    : fault(
        'discovery',
        `unreachable, known workers stay in use: ${discoveryFault}`,
        'restore it; until then workers that join or leave are not noticed',
      )
}

function membership({ models }: FleetView): Finding[] {
  if (models.length > 0) return []
  const advice = 'start workers with the same --discovery, and read their logs'
  return [fault('workers', 'no worker has registered', advice)]
}

/** A fleet may mix two versions during a rolling update, one minor version apart. */
function versions({ version, models }: FleetView): Finding[] {
  const workers = models.flatMap((model) => model.workers)
  if (workers.length === 0) return []
  const others = workers.filter((worker) => worker.version !== version)
  if (others.length === 0) return [ok('versions', `all are ${version}`)]
  const names = [...new Set(others.map((worker) => worker.version))].join(', ')
  const text = `the frontend is ${version}, ${others.length} of ${workers.length} workers are ${names}`
  const isFar = others.some((worker) => minorsApart(version, worker.version) > 1)
  const advice =
    'finish the rolling update; versions that are more than one minor version apart are not tested together'
  return [isFar ? fault('versions', text, advice) : warning('versions', text, advice)]
}

/** The clocks of workers, when they connected to the frontend. */
function clocks({ models }: FleetView): Finding[] {
  const wrong = models
    .flatMap((model) => model.workers)
    .filter(({ clockOffsetMs = 0 }) => Math.abs(clockOffsetMs) > CLOCK_MS_MAX)
  return wrong.map(({ clockOffsetMs = 0, ...worker }) =>
    warning(
      'clock',
      `the clock of worker ${shortId(worker.workerId)} at ${workerAddress(worker)} is ${Math.round(Math.abs(clockOffsetMs) / 1000)} s ${clockOffsetMs > 0 ? 'ahead of' : 'behind'} the frontend's`,
      'run NTP on both machines; the order of traces and the expiry of KV that engines transfer depend on their clocks',
    ),
  )
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

const READY_ADVICE = 'start the missing workers; /health says which role'

function notServing(worker: WorkerView): Finding {
  const { workerId, state, reason = '', code } = worker
  const name = `worker ${shortId(workerId)} at ${workerAddress(worker)}`
  if (state === 'refused') {
    return fault(
      'checksums',
      `${name} gets no requests: ${reason}`,
      'start it with the same model files, block size and context length as the others, or under another model name',
    )
  }
  return fault('connections', `${name}: ${reason}`, connectionAdvice(code))
}

function connectionAdvice(code: ErrorCode | undefined): string {
  switch (code) {
    case 'transport.unauthenticated':
      return 'give both sides the same --wire-secret'
    case 'transport.tls_failed':
      return 'renew a certificate that has expired; otherwise use certificates of the same --tls-ca on both sides, or TLS on neither side'
    case 'transport.cannot_connect':
    case 'transport.connection_timeout':
    case 'transport.disconnected':
      return 'check that the process is running, that --worker-advertise is an address the frontend reaches, and that the firewall leaves the port open'
    case 'transport.version_mismatch':
      return 'update the older side'
    default:
      return "read the worker's log"
  }
}

function kvEvents({ name, prefill, decode }: ModelView): Finding[] {
  const silent = prefill.kvEventWorkersSilent + decode.kvEventWorkersSilent
  const seen = prefill.kvEventWorkers + decode.kvEventWorkers
  // An older frontend does not say it.
  const areOff = [prefill, decode].some((pool) => pool.mode === 'kv' && pool.usesKvEvents === false)
  if (areOff) {
    return [
      warning(
        'kv events',
        `${name}: the frontend ignores them, routing estimates what workers have cached`,
        'start it without --router-kv-events false (useKvEvents in --router-config)',
      ),
    ]
  }
  if (silent > 0) {
    return [
      fault(
        'kv events',
        `${name}: ${counted(silent, 'worker')} sent none although enough prompts were served`,
        "check the engine's event endpoint (docs/engine-vllm.md); until then routing only estimates what they have cached",
      ),
    ]
  }
  return seen === 0 ? [] : [ok('kv events', `${name}: received from ${counted(seen, 'worker')}`)]
}

/** Of all models together: a transfer is counted when its request ends. */
function transfers({ sums, models }: FleetView): Finding[] {
  const { kvTransfers, kvRecomputed } = sums
  const notMoved = models.reduce((sum, { decode }) => sum + decode.kvNotMoved, 0)
  const moved = models.reduce((sum, { decode }) => sum + decode.kvMoved, 0)
  const bad = kvRecomputed + notMoved
  const all = kvTransfers + notMoved + moved
  if (all === 0) return []
  const text = `${bad} of ${all} KV transfers were not used`
  if (bad <= TRANSFERS_BAD_SHARE * all) return [ok('hand-over', text)]
  return [
    fault(
      'hand-over',
      `${text}: decode workers computed those prompts again`,
      "check that decode workers reach the KV port of prefill workers; the decode workers' logs name the reason",
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
        `${name}: no prefill worker is registered, decode workers compute prompts too`,
        'start a prefill worker',
      ),
    ]
  }
  // A doctor that reads the workers themselves sees no requests.
  if (requests === 0) return [ok('prefill', `${name}: requests can be disaggregated`)]
  if (requests < 20 || disaggregated > 0) {
    return [ok('prefill', `${name}: ${disaggregated} of ${requests} requests were disaggregated`)]
  }
  return [
    warning(
      'prefill',
      `${name}: none of ${requests} requests was disaggregated`,
      'baton explain <request id> gives the reason for one request; short prompts run on one worker by design',
    ),
  ]
}

function overload({ name, prefill, decode }: ModelView, serving: readonly WorkerView[]): Finding[] {
  const queued = prefill.queuedRequests + decode.queuedRequests
  const full = serving.filter(({ ranks }) => ranks.length > 0 && ranks.every((rank) => rank.full))
  const refused = prefill.refusals + decode.refusals
  const advice = 'add workers of that role, or limit clients by key (docs/keys.md)'
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
    : [warning('overload', `${name}: ${refused} requests were refused since the start`, advice)]
}
