/**
 * What `baton doctor` reads from a frontend's metrics about its requests: how many ended with an error of the server, and
 * with which. Errors of clients (status 4xx, and disconnects) are not counted, because no change of the fleet mends them.
 */
import { isSendersFault } from '../../base/index.ts'
import { counted, fault, ok } from './finding.ts'
import type { Finding } from './finding.ts'

const SERIES = /^\w*_frontend_requests_total\{([^}]*)\} ([0-9.e+]+)$/gm
const FAILED_SHARE_MAX = 0.05
const CODES_SHOWN = 3

export function requestFindings(metrics: string): readonly Finding[] {
  const byCode = new Map<string, number>()
  let [all, failed] = [0, 0]
  for (const [, labels = '', value] of metrics.matchAll(SERIES)) {
    const count = Number(value)
    all += count
    const code = label(labels, 'error_type')
    if (code === '' || isSendersFault(code)) continue
    failed += count
    byCode.set(code, (byCode.get(code) ?? 0) + count)
  }
  if (failed === 0) return []
  const common = [...byCode].toSorted(([, left], [, right]) => right - left).slice(0, CODES_SHOWN)
  const codes = common.map(([code, count]) => `${code} (${count})`).join(', ')
  const text = `${failed} of ${counted(all, 'request')} failed since the start: ${codes}`
  if (failed <= FAILED_SHARE_MAX * all) return [ok('requests', text)]
  return [fault('requests', text, advice(common[0]?.[0] ?? ''))]
}

function label(labels: string, name: string): string {
  return new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? ''
}

function advice(code: string): string {
  return code === 'kv.transfer_failed'
    ? 'check that decode workers reach the KV port of prefill workers; with --kv-failure recompute such requests are answered all the same'
    : 'docs/errors.md explains the code; the logs of the frontend and the workers name the cause'
}
