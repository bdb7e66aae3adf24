/**
 * `/admin`: lists the workers, and passes an administrator's commands to a worker or to all frontends.
 *
 * GET  /admin/workers, /admin/workers/{id}
 * POST /admin/drain, /admin/resume, /admin/restart   { worker_id }
 * POST /admin/role                                   { worker_id, role, reason? }
 * GET, POST /admin/weights                           { model?, version | worker_id, weight }
 */
import {
  parseRoleCommand,
  parseWeight,
  parseWorkerCommand,
  readJsonObject,
} from '../../api/index.ts'
import { BatonError, isRecord, parseWorkerId } from '../../base/index.ts'
import type { WorkerId } from '../../base/index.ts'
import { modeName, upstreamUrl } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import type { GenerationDeps } from '../generation/generation-job.ts'
import type { WeightCall } from '../../api/index.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import { versionOf } from '../models/model-family.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import { meantVersion, modelVersionOf } from '../models/version-names.ts'
import { jsonReply } from './endpoint-status.ts'

type WorkerCommand = 'drain' | 'resume' | 'restart'

/** The state of a worker as the frontend sees it. */
type Standing = 'serving' | 'unreachable' | 'refused' | 'drained'

interface KnownWorker {
  readonly card: WorkerCard
  readonly standing: Standing
}

export function listWorkers({ registry }: GenerationDeps): HttpReply {
  return jsonReply(200, { workers: knownWorkers(registry).map(workerJson) })
}

/** The worker itself is asked for its state, so the answer includes its requests in flight. */
export async function oneWorker(deps: GenerationDeps, name: string): Promise<HttpReply> {
  const worker = foundWorker(deps.registry, name)
  try {
    const status = await deps.commandWorker?.(worker.card, { command: 'status' })
    return jsonReply(200, { ...workerJson(worker), ...statusJson(status) })
  } catch (thrown) {
    // A drained worker that does not answer has exited and is forgotten.
    if (worker.standing === 'drained') deps.registry.parked.forget(worker.card.workerId)
    throw thrown
  }
}

export async function commandReply(
  deps: GenerationDeps,
  command: WorkerCommand,
  http: HttpRequest,
): Promise<HttpReply> {
  const { registry, commandWorker, onAdminNews } = deps
  const body = readJsonObject(http.body, http.headers['content-type'])
  const worker = foundWorker(registry, parseWorkerCommand(body).workerId)
  if (commandWorker === undefined) {
    throw new BatonError('request.conflict', 'this frontend cannot send commands to workers')
  }
  // Stored before the worker leaves discovery, because later commands need its address.
  if (command === 'drain') {
    registry.parked.park(worker.card)
    onAdminNews?.({ kind: 'parked', card: worker.card })
  }
  const status = await commandWorker(worker.card, { command })
  return jsonReply(200, { ...workerJson(worker), ...statusJson(status) })
}

export async function roleReply(deps: GenerationDeps, http: HttpRequest): Promise<HttpReply> {
  const body = readJsonObject(http.body, http.headers['content-type'])
  const { workerId, role, reason } = parseRoleCommand(body)
  const worker = foundWorker(deps.registry, workerId)
  const command = { command: 'role', role, ...(reason === undefined ? {} : { reason }) }
  const status = await deps.commandWorker?.(worker.card, command)
  return jsonReply(200, { ...workerJson(worker), ...statusJson(status), becomes: role })
}

export function weightsReply(registry: ModelRegistry): HttpReply {
  const weights = registry.families.flatMap((family) =>
    family.versions.flatMap((version) => [
      weightJson(family.name, version.version, family.weightOf(version), version.cards, true),
      ...[...new Set(version.refused.map(({ card }) => versionOf(card)))].map((refused) =>
        weightJson(
          family.name,
          refused,
          0,
          version.refused.map(({ card }) => card).filter((card) => versionOf(card) === refused),
          false,
        ),
      ),
    ]),
  )
  return jsonReply(200, { weights })
}

export function answerWeights(deps: GenerationDeps, http: HttpRequest): HttpReply {
  const { registry, onAdminNews } = deps
  const call = parseWeight(readJsonObject(http.body, http.headers['content-type']))
  const { model, version } = versionMeantBy(registry, call)
  const set = (version: string, weight: number): void => {
    registry.setWeight(model, version, weight)
    onAdminNews?.({ kind: 'weight', model, version, weight })
  }
  const heldBack = registry.names.own(model)?.heldBackBy(version) ?? []
  for (const refused of heldBack) set(refused, 0)
  set(version, call.weight)
  return weightsReply(registry)
}

function versionMeantBy(
  registry: ModelRegistry,
  { version = '', model, workerId }: WeightCall,
): { readonly model: string; readonly version: string } {
  if (workerId !== undefined) {
    const { card } = foundWorker(registry, workerId)
    const found = registry.models.find((each) => isOf(each, card.workerId))
    return {
      model: found?.name ?? card.engine.servedModelName ?? card.engine.model,
      version: found?.cardOf(card.workerId) === undefined ? versionOf(card) : found.version,
    }
  }
  return meantVersion(registry, version, model)
}

function isOf(
  model: {
    readonly refused: readonly { readonly card: WorkerCard }[]
    cardOf(id: WorkerId): unknown
  },
  workerId: WorkerId,
): boolean {
  return (
    model.cardOf(workerId) !== undefined ||
    model.refused.some(({ card }) => card.workerId === workerId)
  )
}

function knownWorkers(registry: ModelRegistry): readonly KnownWorker[] {
  const inFleet = registry.models.flatMap((model) => [
    ...model.reachable.map((card) => ({ card, standing: 'serving' as const })),
    ...model.unreachable.map(({ card }) => ({ card, standing: 'unreachable' as const })),
    ...model.refused.map(({ card }) => ({ card, standing: 'refused' as const })),
  ])
  const there = new Set(inFleet.map(({ card }) => card.workerId))
  const parked = registry.parked.cards.filter(({ workerId }) => !there.has(workerId))
  return [...inFleet, ...parked.map((card) => ({ card, standing: 'drained' as const }))]
}

function foundWorker(registry: ModelRegistry, text: string): KnownWorker {
  const workerId = parseWorkerId(text)
  const found = knownWorkers(registry).find(({ card }) => card.workerId === workerId)
  if (found !== undefined) return found
  throw new BatonError('request.not_found', `worker ${text} is not known here`, {
    data: { param: 'worker_id' },
  })
}

function workerJson({ card, standing }: KnownWorker): Record<string, unknown> {
  const { workerId, engine, mode, engineName, host, port, pid, version, startedAtEpochMs } = card
  const upstream = upstreamUrl(card)
  return {
    worker_id: workerId,
    model: engine.servedModelName ?? engine.model,
    version: versionOf(card),
    role: modeName(mode),
    state: standing,
    engine: engineName,
    host,
    port,
    ...(upstream === null ? {} : { upstream }),
    ...(pid === undefined ? {} : { pid }),
    ...(card.weight === undefined ? {} : { weight: card.weight }),
    ...(card.changesRole === true ? { changes_role: true } : {}),
    software: version,
    ...(startedAtEpochMs === undefined ? {} : { started_at_ms: startedAtEpochMs }),
  }
}

/** The worker's own report takes precedence over what is known here. */
function statusJson(status: unknown): Record<string, unknown> {
  if (!isRecord(status)) return {}
  const { state, inFlightRequests, isRegistered, restart, lastError } = status
  return {
    ...(typeof state === 'string' ? { state } : {}),
    ...(typeof inFlightRequests === 'number' ? { in_flight: inFlightRequests } : {}),
    ...(typeof isRegistered === 'boolean' ? { registered: isRegistered } : {}),
    ...(typeof restart === 'string' ? { restart } : {}),
    ...(typeof lastError === 'string' ? { last_error: lastError } : {}),
  }
}

function weightJson(
  model: string,
  version: string,
  weight: number,
  cards: readonly WorkerCard[],
  isServed: boolean,
): Record<string, unknown> {
  const workers = cards.map(({ workerId }) => ({ worker_id: workerId }))
  const modelVersion = modelVersionOf(cards)
  const named = modelVersion === undefined ? {} : { model_version: modelVersion }
  return { model, version, ...named, weight, served: isServed, workers }
}
