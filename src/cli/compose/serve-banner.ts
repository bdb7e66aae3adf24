/**
 * What `baton serve` prints when it is up: what is running, and a command to try.
 */
import { addressText } from '../../base/index.ts'
import { basename } from 'node:path'
import { isLoopback } from '../../os/index.ts'
import { modeName, servedModelNames, upstreamUrl } from '../../request/index.ts'
import type { WorkerCard } from '../../request/index.ts'
import { isGateway } from '../options/serve-config.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from './version.ts'

const QUESTION = 'Tell me a story about a brave fox named Mira who lives in the forest.'
/** How the user calls this program: from a clone, or from an installed package. */
const BATON = import.meta.url.includes('/node_modules/') ? 'npx baton' : 'npm run -s baton --'

export function serveBanner(
  config: ServeConfig,
  port: number,
  cards: readonly WorkerCard[],
  frontendPids: readonly number[] = [process.pid],
): string {
  const scheme = config.httpTlsCert === null ? 'http' : 'https'
  const url = `${scheme}://${addressText(config.host, port)}`
  const [first] = cards
  const model = first === undefined ? '' : (servedModelNames(first.engine)[0] ?? '')
  const body = JSON.stringify({
    // An upstream that does not answer yet has no model name; a request without one goes to the first model that
    // serves.
    ...(model === '' ? {} : { model }),
    messages: [{ role: 'user', content: QUESTION }],
    stream: true,
  })
  return [
    `Baton ${BATON_VERSION} serves ${whatIsServed(config, cards, model)}`,
    '',
    `  frontend  ${url}  pid ${frontendPids.join(', ')}`,
    `  console   ${url}/`,
    `  access    ${accessLine(config)}`,
    ...workerLines(cards),
    `  KV        ${kvLine(config, cards)}`,
    '',
    'Try it:',
    `  curl -N ${url}/v1/chat/completions${keyHeader(config)} -H 'content-type: application/json' -d '${body}'`,
    `or chat:  ${BATON} chat${port === 8000 ? '' : ` --url ${url}`}`,
    'Ctrl-C drains and stops the server.',
  ].join('\n')
}

/** Says who may call the server. */
export function accessLine({ keys, host, insecureOpen }: ServeConfig): string {
  if (keys !== null) return 'with a key (--keys)'
  if (isLoopback(host) && !insecureOpen) return 'this machine only, without a key'
  return isLoopback(host)
    ? 'OPEN: every process that forwards to this address has full access without a key (--insecure-open)'
    : 'OPEN: everybody who reaches this address has full access without a key (--insecure-open)'
}

function keyHeader({ keys }: ServeConfig): string {
  return keys === null ? '' : ` -H "authorization: Bearer $BATON_API_KEY"`
}

function whatIsServed(config: ServeConfig, cards: readonly WorkerCard[], model: string): string {
  if (!isGateway(config)) {
    return `${model} (${basename(config.model)}, ${config.engine})`
  }
  const kinds = [...new Set(cards.map(({ engineName }) => engineName))]
  return cards.length === 0
    ? 'nothing yet: no upstream answers'
    : `${model} (${cards.length} upstreams: ${kinds.join(', ')})`
}

function workerLines(cards: readonly WorkerCard[]): string[] {
  const order = ['prefill', 'decode', 'agg']
  return [...cards]
    .sort((a, b) => order.indexOf(a.mode) - order.indexOf(b.mode))
    .map((card) => {
      const { mode, pid, host, port, workerId } = card
      const own = host === 'in-process' ? 'in this process' : addressText(host, port)
      const where = upstreamUrl(card) ?? own
      return `  worker    ${modeName(mode).padEnd(10)}  pid ${pid ?? '-'}  ${where}  id ${workerId}`
    })
}

function kvLine(config: ServeConfig, cards: readonly WorkerCard[]): string {
  if (!cards.some(({ mode }) => mode === 'prefill'))
    return 'is not transferred: there is no prefill worker'
  if (cards.some(({ engine }) => engine.runtimeData?.['upstream_kind'] !== undefined))
    return 'is transferred by the engines'
  if (config.engine === 'sim') return 'is simulated: a delay between prefill and decode'
  return 'is transferred from prefill to decode in blocks over TCP on this machine'
}
