/**
 * What `baton doctor` asks a frontend directly: does it answer, do the clocks agree, who may call it, and the
 * state of its process.
 */
import { connect } from 'node:tls'
import { keyHeaders } from '../commands/ask-server.ts'
import { warnedBeforeMs } from '../guard/certificate-ages.ts'
import type { CertificateTerm } from '../guard/certificate-ages.ts'
import { noServer } from '../commands/no-server.ts'
import { replyText } from '../commands/reply-text.ts'
import { isLoopback } from '../../os/index.ts'
import { fault, ok, warning } from './finding.ts'
import type { Finding } from './finding.ts'
import { requestFindings } from './request-checks.ts'

export const CLOCK_MS_MAX = 2_000
const DAY_MS = 86_400_000
/** A server that takes longer for one of these requests is stuck or overloaded. */
export const ANSWER_MS_MAX = 5_000
const FILES_SHARE_MAX = 0.8
const LAG_MS_MAX = 100

/** Throws `transport.cannot_connect` when nothing answers. */
export async function serverChecks(url: string): Promise<readonly Finding[]> {
  const startedMs = performance.now()
  const live = await statusOf(url, '/live')
  const tookMs = performance.now() - startedMs
  return [
    live.status === 200
      ? ok('server', `${url} answers in ${tookMs.toFixed(0)} ms`)
      : fault(
          'server',
          `${url}/live answers ${live.status}`,
          'check that the address is that of a Baton frontend',
        ),
    clock(live.headers.get('date'), Date.now(), tookMs),
    await openness(url),
    ...(await certificate(new URL(url))),
    ...(await ownMetrics(url)),
  ]
}

/** The body is cancelled unread, because it may not end. */
async function statusOf(url: string, path: string): Promise<Response> {
  const reply = await get(url, path, {})
  await reply.body?.cancel()
  return reply
}

async function get(url: string, path: string, headers: Record<string, string>): Promise<Response> {
  return await fetch(new URL(path, url), {
    headers,
    signal: AbortSignal.timeout(ANSWER_MS_MAX),
  }).catch((error: unknown) => {
    throw noServer(url, error, ANSWER_MS_MAX)
  })
}

/**
 * `date` is the response's Date header, which has a resolution of one second and was written before the
 * response arrived.
 */
export function clock(date: string | null, nowEpochMs: number, tookMs: number): Finding {
  const said = Date.parse(date ?? '')
  if (Number.isNaN(said)) return ok('clock', 'the server sends no Date header')
  const apartMs = nowEpochMs - said
  if (apartMs > -CLOCK_MS_MAX && apartMs < CLOCK_MS_MAX + 1000 + tookMs) {
    return ok('clock', 'agrees with the server’s clock')
  }
  return warning(
    'clock',
    `differs by ${Math.round(Math.abs(apartMs) / 1000)} s from the server’s clock`,
    'run NTP on both machines; the expiry of keys and the order of traces depend on their clocks',
  )
}

/** Checks whether a caller without a key can read what is meant for operators. */
async function openness(url: string): Promise<Finding> {
  const { status } = await statusOf(url, '/metrics')
  if (status === 401 || status === 403) return ok('keys', 'required')
  if (isLoopback(new URL(url).hostname.replace(/^\[|\]$/g, ''))) {
    return ok('keys', 'not required on this machine')
  }
  return warning(
    'keys',
    'everybody who reaches this address may use and administer it',
    'baton keys add, then serve --keys keys.json',
  )
}

async function certificate(url: URL): Promise<readonly Finding[]> {
  if (url.protocol !== 'https:') return []
  const term = await new Promise<CertificateTerm | null>((resolve) => {
    const host = url.hostname.replace(/^\[|\]$/g, '')
    const socket = connect({
      host,
      port: Number(url.port) || 443,
      servername: host,
      rejectUnauthorized: false,
      timeout: ANSWER_MS_MAX,
    })
    socket.once('secureConnect', () => {
      const { valid_from: validFrom, valid_to: validTo } = socket.getPeerCertificate()
      resolve(validTo === undefined ? null : { validFrom, validTo })
      socket.end()
    })
    for (const name of ['error', 'timeout'] as const) {
      socket.once(name, () => {
        resolve(null)
        socket.destroy()
      })
    }
  })
  return term === null ? [] : [certificateAge(term, Date.now())]
}

export function certificateAge(term: CertificateTerm, nowEpochMs: number): Finding {
  const leftMs = Date.parse(term.validTo) - nowEpochMs
  const days = Math.floor(leftMs / DAY_MS)
  const advice =
    'replace the files of --http-tls-cert and --http-tls-key; they are reloaded automatically'
  if (days < 0) return fault('certificate', `expired ${-days} days ago`, advice)
  return leftMs < warnedBeforeMs(term)
    ? warning('certificate', `expires in ${days} days`, advice)
    : ok('certificate', `valid for ${days} days`)
}

/** From the server's metrics; no findings when this key may not read them. */
async function ownMetrics(url: string): Promise<readonly Finding[]> {
  const reply = await get(url, '/metrics', { ...keyHeaders() })
  if (reply.status === 200) {
    const metrics = await replyText(url, reply, ANSWER_MS_MAX)
    return [...processFindings(metrics), ...requestFindings(metrics)]
  }
  await reply.body?.cancel()
  return []
}

export function processFindings(metrics: string): readonly Finding[] {
  const value = (name: string): number | null => {
    const found = new RegExp(`^\\w*${name}(?:\\{[^}]*\\})? ([0-9.e+-]+)$`, 'm').exec(metrics)?.[1]
    return found === undefined ? null : Number(found)
  }
  const [open, limit] = [value('process_open_fds'), value('process_max_fds')]
  const lagSeconds = value('nodejs_eventloop_lag_p99_seconds')
  const findings: Finding[] = []
  if (open !== null && limit !== null) {
    const text = `${open} of ${limit} are open in the frontend`
    findings.push(
      open > FILES_SHARE_MAX * limit
        ? fault('server files', text, 'raise its limit (LimitNOFILE=, ulimit -n)')
        : ok('server files', text),
    )
  }
  if (lagSeconds !== null && lagSeconds * 1000 > LAG_MS_MAX) {
    findings.push(
      warning(
        'event loop',
        `delayed by ${(lagSeconds * 1000).toFixed(0)} ms (p99)`,
        'one core is not enough for the frontend: serve --frontends 2, or a frontend on another machine',
      ),
    )
  }
  return findings
}
