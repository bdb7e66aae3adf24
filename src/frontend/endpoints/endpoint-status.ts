/**
 * The status of the service: alive, ready, healthy, models, and why a request ran on its worker.
 */
import { BatonError } from '../../base/index.ts'
import {
  anthropicModelListJson,
  anthropicModelObject,
  asciiJson,
  modelListJson,
  modelObject,
  withRawWorkerIds,
} from '../../api/index.ts'
import { describeDifferences, modeName, upstreamUrl } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { mayUseModel, refuseOtherModels } from '../access/tenant-rules.ts'
import type { Caller } from '../access/caller.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import type { ApiForm } from '../http/route-facts.ts'
import type { OtherFrontends } from '../console/other-frontends.ts'
import type { RequestLog } from '../console/request-log.ts'
import { silencedModel, weightReason } from '../models/model-errors.ts'
import type { ModelRegistry } from '../models/model-registry.ts'
import type { ServedModel } from '../models/served-model.ts'

const JSON_HEADERS = { 'content-type': 'application/json' }

export function jsonReply(status: number, value: unknown): HttpReply {
  return { status, headers: JSON_HEADERS, body: withRawWorkerIds(asciiJson(value)) }
}

/** The process answers; also while it drains. */
export function liveReply(): HttpReply {
  return jsonReply(200, { status: 'live', message: 'Service is live' })
}

export function readyReply(registry: ModelRegistry, draining: boolean): HttpReply {
  const { firstPicture } = registry
  const canServe = canAnswer(registry)
  const ready = !draining && canServe && firstPicture.isComplete
  const joining = canServe ? firstPicture.reason : notReadyReason(registry)
  const reason = draining ? 'draining' : joining
  return jsonReply(ready ? 200 : 503, { ready, ...(ready ? {} : { reason }) })
}

/** Names of workers and their faults are shown to operators only. */
export function healthReply(
  registry: ModelRegistry,
  draining: boolean,
  showsDetails: boolean,
): HttpReply {
  const models = registry.models
  const ready = canAnswer(registry)
  const status = draining ? 'draining' : ready ? 'healthy' : 'not_ready'
  return jsonReply(status === 'healthy' ? 200 : 503, {
    status,
    message: draining
      ? 'Service is shutting down and admits no new requests'
      : ready
        ? 'Service is healthy'
        : notReadyReason(registry),
    ...(showsDetails
      ? {
          warnings: [
            ...discoveryWarnings(registry),
            ...registry.notes.all.map(({ text }) => text),
            ...registry.names
              .conflicts()
              .map(
                ({ name, owner, other }) =>
                  `requests for ${name} go to model ${owner}; workers of ${other} also have this name`,
              ),
            ...registry.families
              .filter(({ isSilenced }) => isSilenced)
              .map(({ name }) => `requests of ${name} are refused: ${weightReason(name)}`),
            ...models.flatMap(warningsOf),
          ],
          ...discoveryHealth(registry),
          models: models.map(modelHealth),
        }
      : {}),
  })
}

function discoveryHealth({ discovery: { fault } }: ModelRegistry): Record<string, unknown> {
  if (fault === null) return {}
  const { why, awayMs } = fault
  return { discovery: { state: 'away', away_seconds: Math.round(awayMs / 1000), reason: why } }
}

function discoveryWarnings({ discovery: { fault } }: ModelRegistry): readonly string[] {
  if (fault === null) return []
  const { why, awayMs } = fault
  const seconds = Math.round(awayMs / 1000)
  return [`discovery has been unreachable for ${seconds} s, known workers stay in use: ${why}`]
}

/** A version of weight 0 gets no requests. */
function canAnswer(registry: ModelRegistry): boolean {
  return registry.models.some((model) => model.canAnswer && registry.weightOf(model) > 0)
}

function notReadyReason(registry: ModelRegistry): string {
  const { models } = registry
  const meant = models.find((model) => registry.weightOf(model) > 0)
  const known = meant?.notReadyReason() ?? models.map(({ name }) => weightReason(name))[0]
  // A known model says itself which addresses it cannot reach, but not that a process is missing.
  const why = registry.notes.all.find(
    (note) => note.why !== undefined && (known === undefined || note.kind === 'worker-away'),
  )?.why
  return [known ?? 'no worker is registered', ...(why === undefined ? [] : [why])].join(': ')
}

/** The router's own warnings, and those about workers that the router does not know. */
function warningsOf(model: ServedModel): readonly string[] {
  return [
    ...model.router.status().warnings,
    ...(model.textWarning === null ? [] : [model.textWarning]),
    ...silentWorkersWarning(model),
    ...model.unreachable.flatMap(({ card, fault }) =>
      fault === null ? [] : [`worker ${card.workerId} cannot be reached: ${fault.message}`],
    ),
    ...model.hiddenAdapters.map(
      ({ workerId, name }) =>
        `adapter ${name} of worker ${workerId} gets no requests because ${model.name} itself has this name`,
    ),
    ...model.refused.map(
      ({ card, differences }) =>
        `worker ${card.workerId} gets no requests because it differs from the others of ${model.name}: ${describeDifferences(differences)}`,
    ),
  ]
}

/** Constraints of requests may be ignored there, and the replies do not show it. */
function silentWorkersWarning({ name, silentWorkers, features }: ServedModel): readonly string[] {
  if (silentWorkers.length === 0) return []
  const effect =
    features === undefined
      ? 'may have no effect'
      : 'are sent to the other workers only, if these support them'
  return [
    `${silentWorkers.length} workers of ${name} (Baton 0.1) do not state which features their engine has: fields such as seed, logprobs, response_format and tool_choice ${effect}`,
  ]
}

function modelHealth(model: ServedModel): Record<string, unknown> {
  const { disaggregation, selfCheck } = model.router.status()
  const { unreachable, refused } = model
  return {
    name: model.name,
    version: model.version,
    ready: model.canAnswer,
    ...(model.canAnswer ? {} : { reason: model.notReadyReason() }),
    disaggregation,
    self_check: selfCheck,
    warnings: warningsOf(model),
    workers: model.reachable.map(workerHealth),
    ...(unreachable.length === 0
      ? {}
      : {
          unreachable: unreachable.map(({ card, fault }) => ({
            ...workerHealth(card),
            reason: fault?.message ?? 'is being connected',
            ...(fault === null ? {} : { code: fault.code }),
          })),
        }),
    ...(refused.length === 0
      ? {}
      : {
          refused: refused.map(({ card, differences }) => ({
            ...workerHealth(card),
            differs: differences,
          })),
        }),
  }
}

function workerHealth(card: WorkerCard): Record<string, unknown> {
  const { workerId, mode, engineName, host, port, pid, version, agreement } = card
  const batching = card.engine.runtimeData?.['batching']
  const upstream = upstreamUrl(card)
  return {
    worker_id: workerId,
    mode: modeName(mode),
    engine: engineName,
    host,
    port,
    ...(upstream === null ? {} : { upstream }),
    ...(pid === undefined ? {} : { pid }),
    version,
    ...(agreement === undefined ? {} : { checksum: agreement.checksum }),
    ...(typeof batching === 'string' ? { batching } : {}),
  }
}

/** The models that the caller may use. */
export function modelsReply(registry: ModelRegistry, form: ApiForm, caller: Caller): HttpReply {
  const served = registry.names
    .served()
    .filter(([name, model]) => mayUseModel(caller, [name, model.name]))
  const entries = served.map(([name, model]) => entryOf(name, model))
  const body = form === 'openai' ? modelListJson(entries) : anthropicModelListJson(entries)
  return { status: 200, headers: JSON_HEADERS, body }
}

/** `{id}` may contain slashes; with `/ready` at the end the question is whether the model can be served. */
export function modelReply(
  registry: ModelRegistry,
  id: string,
  form: ApiForm,
  caller: Caller,
): HttpReply {
  const exact = registry.names.find(id)
  if (exact?.main !== undefined) {
    refuseOtherModels(caller, [id, exact.name])
    const { meant } = exact
    if (meant === undefined) throw silencedModel(exact.name)
    if (!meant.isReady) throw meant.notReady()
    const entry = entryOf(id, meant)
    return jsonReply(200, form === 'openai' ? modelObject(entry) : anthropicModelObject(entry))
  }
  const asksReady = id.endsWith('/ready')
  const name = asksReady ? id.slice(0, -'/ready'.length) : id
  const model = registry.names.known(name)
  refuseOtherModels(caller, [name, model.name])
  const meant = registry.names.find(name)?.meant
  const ready = meant?.canAnswer === true
  const counts: Record<string, number> = {}
  for (const { mode } of model.cards) {
    const name = modeName(mode)
    counts[name] = (counts[name] ?? 0) + 1
  }
  return jsonReply(200, {
    model: model.name,
    ready,
    ...(ready ? {} : { reason: meant?.notReadyReason() ?? weightReason(model.name) }),
    worker_types: counts,
  })
}

function entryOf(name: string, model: ServedModel) {
  const { contextLength } = model
  return {
    name,
    createdSeconds: model.createdSeconds,
    ...(contextLength === undefined ? {} : { contextLength }),
  }
}

/** One request: its phases while they are kept, and its decisions with every candidate and the cost terms. */
/** Another frontend may have made the decision. */
export async function explainReply(
  registry: ModelRegistry,
  log: RequestLog,
  others: Pick<OtherFrontends, 'decisionsOf'>,
  requestId: string,
): Promise<HttpReply> {
  const own = registry.decisionsOf(requestId)
  const found =
    own === null
      ? await others.decisionsOf(requestId)
      : { model: own.model.name, decisions: own.decisions }
  const request = log.find(requestId)
  if (found !== null || request !== null) {
    return jsonReply(200, {
      request_id: requestId,
      model: found?.model ?? request?.model,
      decisions: found?.decisions ?? [],
      ...(request === null ? {} : { request }),
    })
  }
  throw new BatonError(
    'request.not_found',
    `request ${requestId} is not known: only the last decisions are kept`,
  )
}
