/**
 * Parses one upstream as a user names it: `http://gpu-1:8000`, `prefill=http://…`, `vllm+http://…`,
 * `dns+http://name:8000`.
 */
import { BatonError, isRecord } from '../../base/index.ts'
import { parseDisaggregationMode } from '../../request/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { parseUpstreamUrl } from '../client/upstream-url.ts'
import { UPSTREAM_KINDS } from '../dialects/dialect-table.ts'
import type { UpstreamKind } from '../dialects/dialect-table.ts'

export interface UpstreamSpec {
  readonly url: string
  /** Absent: what the server reports, otherwise `agg`. */
  readonly mode?: DisaggregationMode
  /** Absent: detected. */
  readonly kind?: UpstreamKind
  /** Every address of the name is an upstream of its own. */
  readonly isDns?: boolean
  /** The name that the address in `url` was resolved from. */
  readonly hostName?: string
}

/** A list separated by commas, or the lines of a file. Throws `config.invalid`. */
export function parseUpstreams(text: string): readonly UpstreamSpec[] {
  return text
    .split(/[,\s]+/)
    .filter((entry) => entry !== '')
    .map(parseUpstream)
}

/** Parses one entry of the list. */
function parseUpstream(entry: string): UpstreamSpec {
  const [, role, rest = entry] = /^([a-z]+)=(.*)$/i.exec(entry) ?? []
  const [, prefix, address = rest] = /^([a-z-]+)\+(.*)$/i.exec(rest) ?? []
  const kind = UPSTREAM_KINDS.find((name) => name === prefix?.toLowerCase())
  const isDns = prefix?.toLowerCase() === 'dns'
  if (prefix !== undefined && kind === undefined && !isDns) {
    throw invalid(
      entry,
      `${prefix} is invalid: expected one of ${UPSTREAM_KINDS.join(', ')} and dns`,
    )
  }
  const nested = isDns && address.includes('+') ? parseUpstream(address) : null
  const url = nested?.url ?? parseUpstreamUrl(address).text
  return specOf({
    // Credentials in the address are kept; `text` does not contain them.
    url: nested === null ? withCredentials(address, url) : url,
    mode: role === undefined ? undefined : modeOf(entry, role),
    kind: nested?.kind ?? kind,
    isDns,
  })
}

/** Parses a value of `baton.yaml` or a watched file: texts, or objects with `url`, `mode`, `kind`. */
export function upstreamsOf(value: unknown): readonly UpstreamSpec[] {
  if (typeof value === 'string') return parseUpstreams(value)
  const list: unknown = isRecord(value) && 'upstreams' in value ? value['upstreams'] : value
  if (list === null || list === undefined) return []
  if (!Array.isArray(list)) throw invalid('the list', 'it is not a list of addresses')
  return (list as unknown[]).flatMap((entry) => {
    if (typeof entry === 'string') return parseUpstreams(entry)
    if (!isRecord(entry) || typeof entry['url'] !== 'string') {
      throw invalid(JSON.stringify(entry), 'its field url is missing')
    }
    const { url, mode, kind, ...rest } = entry
    const [unknown] = Object.keys(rest)
    if (unknown !== undefined) throw invalid(url as string, `unknown field ${unknown}`)
    const parsed = parseUpstream(url as string)
    return [
      specOf({
        url: parsed.url,
        isDns: parsed.isDns === true,
        mode: typeof mode === 'string' ? modeOf(url as string, mode) : parsed.mode,
        kind: typeof kind === 'string' ? kindOf(url as string, kind) : parsed.kind,
      }),
    ]
  })
}

/** Identifies an upstream. */
export function upstreamKey({ url, mode, kind }: UpstreamSpec): string {
  return `${mode ?? ''}=${kind ?? ''}+${url}`
}

function specOf(parts: {
  readonly url: string
  readonly mode: DisaggregationMode | undefined
  readonly kind: UpstreamKind | undefined
  readonly isDns: boolean
}): UpstreamSpec {
  const { url, mode, kind, isDns } = parts
  return {
    url,
    ...(mode === undefined ? {} : { mode }),
    ...(kind === undefined ? {} : { kind }),
    ...(isDns ? { isDns } : {}),
  }
}

function withCredentials(written: string, url: string): string {
  const credentials = /^(?:[a-z]+:\/\/)?([^/@]+)@/i.exec(written)?.[1]
  return credentials === undefined ? url : url.replace('://', `://${credentials}@`)
}

function modeOf(entry: string, text: string): DisaggregationMode {
  try {
    return parseDisaggregationMode(text)
  } catch (cause) {
    throw invalid(entry, BatonError.from(cause).message, cause)
  }
}

function kindOf(entry: string, text: string): UpstreamKind {
  const kind = UPSTREAM_KINDS.find((name) => name === text)
  if (kind !== undefined) return kind
  throw invalid(entry, `${text} is invalid: expected one of ${UPSTREAM_KINDS.join(', ')}`)
}

function invalid(entry: string, why: string, cause?: unknown): BatonError {
  const shown = entry.replace(/\/\/[^/@]*@/, '//…@')
  return new BatonError(
    'config.invalid',
    `upstream ${shown} is invalid: ${why}; expected for example http://gpu-1:8000, prefill=http://gpu-2:8000 or vllm+http://gpu-3:8000`,
    cause === undefined ? {} : { cause },
  )
}
