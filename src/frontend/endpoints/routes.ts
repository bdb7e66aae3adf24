/**
 * The table of all routes of the service.
 */
import { openApiDocument, readJsonObject } from '../../api/index.ts'
import type { OpenApi } from '../../api/index.ts'
import { consoleRoutes } from '../console/console-routes.ts'
import type { ConsoleParts } from '../console/console-routes.ts'
import type { BatchService } from '../batches/batch-service.ts'
import { answerForwarded } from '../forward/forward-answer.ts'
import { forwardRoutes, orPassedThrough } from '../forward/forward-routes.ts'
import { isForwardedMedia } from '../forward/media-parts.ts'
import type { Endpoint } from '../generation/frontend-event.ts'
import type { GenerationDeps, Generator } from '../generation/generation-job.ts'
import type { HttpReply, HttpRequest } from '../http/http-exchange.ts'
import type { HttpCall } from '../http/http-call.ts'
import type { Access } from '../http/route-facts.ts'
import type { Handler, Route } from '../http/route.ts'
import {
  answerWeights,
  commandReply,
  listWorkers,
  oneWorker,
  roleReply,
  weightsReply,
} from './endpoint-admin.ts'
import { clearCaches } from './endpoint-cache.ts'
import { docsPage } from './docs-page.ts'
import { answerMessages, countMessageTokens } from './endpoint-anthropic.ts'
import { cancelBatch, createBatch, listBatches, readBatch } from './endpoint-batches.ts'
import { answerChat } from './endpoint-chat.ts'
import { answerCompletions } from './endpoint-completions.ts'
import { answerEmbeddings } from './endpoint-embeddings.ts'
import {
  createFile,
  deleteFile,
  listFiles,
  readContent,
  readFile,
  takeFile,
} from './endpoint-files.ts'
import { answerGenerate } from './endpoint-generate.ts'
import { answerRerank, answerScore } from './endpoint-rerank.ts'
import { answerResponses, countResponseTokens } from './endpoint-responses.ts'
import {
  explainReply,
  healthReply,
  jsonReply,
  liveReply,
  modelReply,
  modelsReply,
  readyReply,
} from './endpoint-status.ts'
import {
  addItems,
  cancelResponse,
  changeConversation,
  createConversation,
  deleteConversation,
  deleteItem,
  deleteResponse,
  listInput,
  listItems,
  readConversation,
  readItem,
  readResponse,
} from './endpoint-stored.ts'
import { listThresholds, setThresholds } from './endpoint-thresholds.ts'
import { answerDetokenize, answerTokenize } from './endpoint-tokens.ts'

interface RouteDeps {
  readonly deps: GenerationDeps
  /** Wraps a generating call with admission, record and end. */
  readonly generating: (endpoint: Endpoint, answer: Generator) => Handler
  /** Counts a call that works without generating as a request of its key. Throws `request.rate_limited`. */
  readonly count: (call: HttpCall) => void
  readonly isDraining: () => boolean
  readonly console: ConsoleParts
  /** Null: files and batches are off. */
  readonly batches: () => BatchService | null
}

const HTML = { 'content-type': 'text/html; charset=utf-8' }
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'
const SMALL_BODY_BYTES = 64 * 1024

export function routesOf(parts: RouteDeps): readonly Route[] {
  const { forwarding } = parts.deps
  const own = ownRoutes(parts)
  if (forwarding === undefined) return own
  const forwarded = forwardRoutes(forwarding.always, parts.generating)
  const isForwarded = ({ method, path }: Route): boolean =>
    forwarded.some((route) => route.path === path && route.method === method)
  const rest = own.filter((route) => !isForwarded(route))
  return [
    ...rest.map((route) => orPassedThrough(route, parts.deps.registry, parts.generating)),
    ...forwarded,
  ]
}

function ownRoutes({
  deps,
  generating,
  count,
  isDraining,
  console,
  batches,
}: RouteDeps): readonly Route[] {
  const { registry } = deps
  let written: OpenApi | null = null
  const openApi = () => (written ??= openApiDocument(deps.version ?? '0.0.0'))
  const generator = (path: string, endpoint: Endpoint, answer: Generator) =>
    post(path, generating(endpoint, answer))
  const counted =
    (handle: Handler): Handler =>
    (http, call) => {
      count(call)
      return handle(http, call)
    }
  const countThere = generating('tokens', answerForwarded)
  /** Only the engine knows how many tokens an image is. */
  const counting =
    (countHere: Handler): Handler =>
    (http, call) =>
      deps.forwarding !== undefined && isForwardedMedia(deps, fieldsOf(http))
        ? countThere(http, call)
        : counted(countHere)(http, call)
  return [
    generator('/v1/chat/completions', 'chat_completions', answerChat),
    generator('/v1/completions', 'completions', answerCompletions),
    generator('/inference/v1/generate', 'generate', answerGenerate),
    generator('/v1/responses', 'responses', answerResponses),
    get('client', '/v1/responses/{id}', (_, call) => readResponse(deps, call)),
    remove('/v1/responses/{id}', (_, call) => deleteResponse(deps, call)),
    get('client', '/v1/responses/{id}/input_items', (_, call) => listInput(deps, call)),
    bare('/v1/responses/{id}/cancel', (_, call) => cancelResponse(deps, call)),
    post(
      '/v1/conversations',
      counted((http, call) => createConversation(deps, http, call)),
    ),
    get('client', '/v1/conversations/{id}', (_, call) => readConversation(deps, call)),
    post(
      '/v1/conversations/{id}',
      counted((http, call) => changeConversation(deps, http, call)),
    ),
    remove('/v1/conversations/{id}', (_, call) => deleteConversation(deps, call)),
    get('client', '/v1/conversations/{id}/items', (_, call) => listItems(deps, call)),
    post(
      '/v1/conversations/{id}/items',
      counted((http, call) => addItems(deps, http, call)),
    ),
    get('client', '/v1/conversations/{id}/items/{item}', (_, call) => readItem(deps, call)),
    remove('/v1/conversations/{id}/items/{item}', (_, call) => deleteItem(deps, call)),
    post(
      '/v1/responses/input_tokens',
      counting((http, { caller }) => countResponseTokens(deps, http, caller)),
    ),
    { ...generator('/v1/messages', 'anthropic_messages', answerMessages), form: 'anthropic' },
    {
      ...post(
        '/v1/messages/count_tokens',
        counting((http, { caller }) => countMessageTokens(deps, http, caller)),
      ),
      form: 'anthropic',
    },
    generator('/v1/embeddings', 'embeddings', answerEmbeddings),
    ...['/v1/rerank', '/rerank', '/v2/rerank', '/v1/reranking'].map((path) =>
      generator(path, 'rerank', answerRerank),
    ),
    ...['/v1/score', '/score'].map((path) => generator(path, 'score', answerScore)),
    {
      ...get('client', '/v1/models', (_, { form, caller }) => modelsReply(registry, form, caller)),
      form: 'either',
    },
    {
      ...get('client', '/v1/models/{id...}', (_, { name, form, caller }) =>
        modelReply(registry, name, form, caller),
      ),
      form: 'either',
    },
    {
      ...post(
        '/v1/files',
        counted((http, call) => createFile(batches(), http, call)),
      ),
      body: deps.batches?.fileBytesMax ?? SMALL_BODY_BYTES,
      takeBody: (call) => {
        count(call)
        return takeFile(batches(), call)
      },
    },
    get('client', '/v1/files', (_, call) => listFiles(batches(), call)),
    get('client', '/v1/files/{id}', (_, call) => readFile(batches(), call)),
    remove('/v1/files/{id}', (_, call) => deleteFile(batches(), call)),
    get('client', '/v1/files/{id}/content', (_, call) => readContent(batches(), call)),
    {
      ...post(
        '/v1/batches',
        counted((http, call) => createBatch(batches(), http, call)),
      ),
      body: SMALL_BODY_BYTES,
    },
    get('client', '/v1/batches', (_, call) => listBatches(batches(), call)),
    get('client', '/v1/batches/{id}', (_, call) => readBatch(batches(), call)),
    bare('/v1/batches/{id}/cancel', (_, call) => cancelBatch(batches(), call)),
    post(
      '/tokenize',
      counted((http, { caller }) => answerTokenize(deps, http, caller)),
    ),
    post(
      '/detokenize',
      counted((http, { caller }) => answerDetokenize(registry, http, caller)),
    ),
    post(
      '/v1/tokenize',
      counted((http, { caller }) => answerTokenize(deps, http, caller)),
    ),
    post(
      '/v1/detokenize',
      counted((http, { caller }) => answerDetokenize(registry, http, caller)),
    ),
    get('client', '/version', () => jsonReply(200, { version: deps.version ?? '0.0.0' })),
    get('anyone', '/live', liveReply),
    get('anyone', '/ready', () => readyReply(registry, isDraining())),
    get('anyone', '/health', (_, { caller }) =>
      healthReply(registry, isDraining(), caller.mayOperate),
    ),
    get('operator', '/metrics', async ({ headers }) => await metricsReply(deps, headers['accept'])),
    get('operator', '/debug/requests/{id}', (_, { name }) =>
      explainReply(registry, console.log, console.others, withoutReplyPrefix(name)),
    ),
    ...consoleRoutes(console),
    get('operator', '/openapi.json', () => jsonReply(200, openApi())),
    get('operator', '/docs', () => ({ status: 200, headers: HTML, body: docsPage(openApi()) })),
    get('operator', '/admin/keys', () => jsonReply(200, { keys: deps.keys?.() ?? null })),
    get('operator', '/admin/workers', () => listWorkers(deps)),
    get('operator', '/admin/workers/{id}', (_, { name }) => oneWorker(deps, name)),
    ...(['drain', 'resume', 'restart'] as const).map((command) =>
      operatorPost(`/admin/${command}`, (http) => commandReply(deps, command, http)),
    ),
    operatorPost('/clear_kv_blocks', (http) => clearCaches(deps, http, 200)),
    operatorPost('/reset_prefix_cache', (http) => clearCaches(deps, http, 502)),
    operatorPost('/flush_cache', (http) => clearCaches(deps, http, 502)),
    operatorPost('/admin/role', (http) => roleReply(deps, http)),
    get('operator', '/admin/weights', () => weightsReply(registry)),
    operatorPost('/admin/weights', (http) => answerWeights(deps, http)),
    get('operator', '/busy_threshold', () => listThresholds(registry)),
    operatorPost('/busy_threshold', (http) => setThresholds(registry, http)),
  ]
}

const fieldsOf = ({ body, headers }: HttpRequest) => readJsonObject(body, headers['content-type'])

function post(path: string, handle: Handler): Route {
  return { method: 'POST', path, access: 'client', body: 'large', form: 'openai', handle }
}

function bare(path: string, handle: Handler): Route {
  return { ...post(path, handle), body: 'none' }
}

function operatorPost(path: string, handle: Handler): Route {
  return { ...post(path, handle), access: 'operator', body: SMALL_BODY_BYTES }
}

function remove(path: string, handle: Handler): Route {
  return { method: 'DELETE', path, access: 'client', body: 'none', form: 'openai', handle }
}

function get(access: Access, path: string, handle: Handler): Route {
  return { method: 'GET', path, access, body: 'none', form: 'openai', handle }
}

async function metricsReply(
  { metrics }: GenerationDeps,
  accept: string | undefined,
): Promise<HttpReply> {
  const said = (await metrics?.(accept)) ?? ''
  const { contentType, body } =
    typeof said === 'string' ? { contentType: METRICS_TYPE, body: said } : said
  return { status: 200, headers: { 'content-type': contentType, vary: 'accept' }, body }
}

/** The id of a reply also names its request: `chatcmpl-<request id>`. */
function withoutReplyPrefix(id: string): string {
  return id.replace(/^(chatcmpl|cmpl|resp|msg)[-_]/, '')
}
