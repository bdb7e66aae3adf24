/**
 * The console: the page at `/`, and the data for it, for `baton top` and for `baton doctor`.
 *
 * The page itself contains no data and is public; the data is for operators.
 */
import { asciiJson, parseLimit } from '../../api/index.ts'
import { BatonError } from '../../base/index.ts'
import type { HttpReply } from '../http/http-exchange.ts'
import type { Route } from '../http/route.ts'
import type { FleetView } from './fleet-view.ts'
import type { LiveFeed } from './live-feed.ts'
import type { OtherFrontends } from './other-frontends.ts'
import type { RequestLog } from './request-log.ts'

export interface ConsoleParts {
  readonly log: RequestLog
  readonly feed: LiveFeed
  readonly fleet: () => FleetView
  readonly others: Pick<OtherFrontends, 'looked' | 'decisionsOf'>
  /** The page's HTML; null or absent: this build has none. */
  readonly page?: (() => string | null) | undefined
}

const LISTED = { usual: 100, max: 100 }
const PAGE_HEADERS = {
  'content-type': 'text/html; charset=utf-8',
  'cache-control': 'no-cache',
  'x-frame-options': 'DENY',
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

export function consoleRoutes({ log, feed, fleet, others, page }: ConsoleParts): readonly Route[] {
  return [
    read('/', 'anyone', () => pageReply(page?.() ?? null)),
    read('/debug/fleet', 'operator', async () => {
      await others.looked()
      return json(fleet())
    }),
    read('/debug/requests', 'operator', async ({ query }) => {
      const limit = parseLimit(query, LISTED)
      await others.looked()
      return json({ requests: log.latest(limit) })
    }),
    read('/debug/events', 'operator', ({ signal }) => feed.open(signal)),
  ]
}

function read(path: string, access: Route['access'], handle: Route['handle']): Route {
  return { method: 'GET', path, access, body: 'none', form: 'openai', handle }
}

function json(value: unknown): HttpReply {
  return {
    status: 200,
    headers: { 'content-type': 'application/json', 'cache-control': 'no-cache' },
    body: asciiJson(value),
  }
}

function pageReply(html: string | null): HttpReply {
  if (html !== null) return { status: 200, headers: PAGE_HEADERS, body: html }
  throw new BatonError(
    'request.not_found',
    'the console page is not part of this build (npm run build makes it); the API is at /v1, see /docs',
  )
}
