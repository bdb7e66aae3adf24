/**
 * `baton boostr router|prefill|decode`: one role of a fleet that speaks the dialect `boostr` (tags 10 and
 * 30–36).
 *
 * The router connects to all workers, and a prefill worker connects to the decode workers. The side that is
 * connected to is told with `--accept` which ranks it accepts.
 */
import { resolve } from 'node:path'
import { addressText, BatonError } from '../../base/index.ts'
import {
  boostrHealth,
  hostBoostrDecode,
  hostBoostrPrefill,
  hostBoostrRouter,
  listenBoostrHttp,
} from '../../boostr/index.ts'
import { watchShutdownSignals } from '../../host/index.ts'
import { KV_CACHE_BYTES_MAX } from '../../wire/index.ts'
import type { BoostrHealth, BoostrMesh } from '../../boostr/index.ts'
import { createDisaggConfig } from '../../boostr/index.ts'
import { firstLineOf } from '../options/first-line.ts'
import type { BoostrRole } from './boostr-flags.ts'
import { loadBoostrModel } from './boostr-model.ts'
import type { ResolvedOption } from '../options/resolve-config.ts'
import { serveConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from '../compose/version.ts'
import { watchCertificates } from '../guard/watch-certificates.ts'
import { surviveStrayErrors } from '../guard/stray-errors.ts'
import { openWireWarning, wireSecurity } from '../guard/wire-security.ts'
import type { CertificateLog } from '../guard/renewed-pems.ts'
import type { WireSecurity } from '../guard/wire-security.ts'

const DEADLINES = { prefillMs: 60_000, tokenMs: 60_000, ackMs: 60_000, kvWaitMs: 60_000 } as const
const LIMITS = { queueMax: 4_096, affinityMax: 65_536, parkedMax: 4_096 } as const

/** Messages have no room for a larger rank, or more `max_tokens`. */
const U32_MAX = 0xffffffff

/** For answers that are still running when the router ends. */
const HTTP_GRACE_MS = 1_000

const CERTIFICATE_LOG: CertificateLog = {
  info: (_, text) => console.log(text),
  warn: (fields, text) => {
    const { message } = fields as { readonly message?: string }
    console.error(`baton: warning: ${text}${message === undefined ? '' : `: ${message}`}`)
  },
}

interface Place {
  readonly rank: number
  readonly host: string
  readonly port: number
}

/** The validated flags. */
interface BoostrSettings {
  readonly rank: number
  readonly listen: { readonly host: string; readonly port: number }
  readonly http: { readonly host: string; readonly port: number }
  readonly accept: readonly number[]
  readonly prefill: readonly Place[]
  readonly decode: readonly Place[]
  readonly module: string | null
  readonly peers: 'baton' | 'boostr'
  readonly maxKvTransferBytes: number
  readonly kvBytesMax: number
  readonly maxTokensMax: number
  readonly inFlightMax: number
}

export async function runBoostr(
  role: BoostrRole,
  flags: Readonly<Record<string, unknown>>,
  options: readonly ResolvedOption[],
): Promise<number> {
  const settings = settingsOf(flags)
  if (role !== 'router') refuseOwnRank(settings)
  const security = wireSecurity(serveConfig(options))
  const warning = role === 'router' ? null : openWireWarning(settings.listen.host, security)
  if (warning !== null) console.error(warning)
  const endCertificates = watchCertificates([security.tls], CERTIFICATE_LOG, (_, text) => {
    if (text !== null) console.error(`baton: warning: ${text}`)
  })
  const signals = watchShutdownSignals({})
  const close = await START[role](settings, security)
  await signals.first
  await close()
  endCertificates()
  console.log('ended')
  return 0
}

type Start = (settings: BoostrSettings, security: WireSecurity) => Promise<() => Promise<unknown>>

const START: Readonly<Record<BoostrRole, Start>> = {
  router: async (settings, security) => {
    const { rank, prefill, decode, peers, maxKvTransferBytes, http } = settings
    const { inFlightMax, maxTokensMax } = settings
    const config = createDisaggConfig({
      prefillWorkers: ranksOf(prefill),
      decodeWorkers: ranksOf(decode),
      routerRank: rank,
      maxKvTransferBytes,
    })
    const options = { config, peers, inFlightMax, ...DEADLINES, ...LIMITS }
    const { node, mesh } = await hostBoostrRouter(meshOf(security), options)
    dial(mesh, [...prefill, ...decode])
    const health = (): BoostrHealth => boostrHealth(config, mesh)
    const onFault = (error: unknown): void => console.error(`baton: ${String(error)}`)
    const server = await listenBoostrHttp({
      ...http,
      router: node,
      maxTokensMax,
      health,
      onFault,
    }).catch(async (error: unknown) => {
      await mesh.close()
      throw error
    })
    announce('router', rank, `http://${addressText(http.host, server.port)}`)
    return async () => await Promise.all([server.close(HTTP_GRACE_MS), mesh.close()])
  },
  prefill: async (settings, security) => {
    const { rank, listen, accept, decode, module } = settings
    const { mesh } = await hostBoostrPrefill(
      { ...meshOf(security), ...listen, rank, ranks: [...accept, ...ranksOf(decode)] },
      {
        ...settings,
        ...DEADLINES,
        ...LIMITS,
        decodeWorkers: ranksOf(decode),
        prefill: await modelOf(module, 'prefill'),
        onFault: (thrown) => tellFault('prefill', thrown),
      },
    )
    dial(mesh, decode)
    announce('prefill', rank, addressText(mesh.host, mesh.port))
    return () => mesh.close()
  },
  decode: async (settings, security) => {
    const { rank, listen, accept, module } = settings
    const { mesh } = await hostBoostrDecode(
      { ...meshOf(security), ...listen, rank, ranks: accept },
      {
        ...settings,
        ...DEADLINES,
        decodeStep: await modelOf(module, 'decodeStep'),
        onFault: (thrown) => tellFault('decodeStep', thrown),
      },
    )
    announce('decode', rank, addressText(mesh.host, mesh.port))
    return () => mesh.close()
  },
}

function meshOf(
  security: WireSecurity,
): WireSecurity & { readonly software: string; readonly report: (line: string) => void } {
  const report = (line: string): void => console.error(`baton: ${line}`)
  return { ...security, software: `baton/${BATON_VERSION}`, report }
}

function announce(role: BoostrRole, rank: number, address: string): void {
  console.log(`Baton ${BATON_VERSION} boostr ${role}, rank ${rank}, at ${address}`)
}

function modelOf<Name extends 'prefill' | 'decodeStep'>(module: string | null, name: Name) {
  if (module !== null) {
    surviveStrayErrors(resolve(module), 'module', {
      error: ({ err }, text) => console.error(`baton: ${module}: ${text}: ${firstLineOf(err)}`),
    })
  }
  return loadBoostrModel(module, name)
}

function tellFault(what: string, thrown: unknown): void {
  console.error(`baton: ${what} failed, its request is ended: ${firstLineOf(thrown)}`)
}

function dial(mesh: BoostrMesh, places: readonly Place[]): void {
  for (const { rank, host, port } of places) {
    mesh.dial(rank, host, port)
    void mesh.reached(rank).then(() => console.log(`rank ${rank} is connected`))
  }
}

const ranksOf = (places: readonly Place[]): number[] => places.map(({ rank }) => rank)

function settingsOf(flags: Readonly<Record<string, unknown>>): BoostrSettings {
  const {
    rank,
    listen,
    http,
    accept = [],
    prefillWorkers = [],
    decodeWorkers = [],
    module,
    peers,
  } = flags
  if (peers !== 'baton' && peers !== 'boostr') throw invalid('--peers', 'expected baton or boostr')
  return {
    rank: rankOf('--rank', rank),
    listen: addressOf('--listen', listen ?? '127.0.0.1:0'),
    http: addressOf('--http', http ?? '127.0.0.1:0'),
    accept: (accept as unknown[]).map((one) => rankOf('--accept', one)),
    prefill: (prefillWorkers as unknown[]).map((one) => placeOf('--prefill-workers', one)),
    decode: (decodeWorkers as unknown[]).map((one) => placeOf('--decode-workers', one)),
    module: typeof module === 'string' ? module : null,
    peers,
    maxKvTransferBytes: positiveOf(
      '--max-kv-transfer-bytes',
      flags['maxKvTransferBytes'],
      KV_CACHE_BYTES_MAX,
    ),
    kvBytesMax: integerOf('--max-kv-bytes', flags['maxKvBytes'] ?? 4 * 1024 ** 3),
    maxTokensMax: positiveOf('--max-tokens', flags['maxTokens'] ?? 131_072, U32_MAX),
    inFlightMax: positiveOf('--max-in-flight', flags['maxInFlight'] ?? 64),
  }
}

/** It would wait for itself. A router's ranks are checked with the roles of its fleet. */
function refuseOwnRank({ rank, accept, decode }: BoostrSettings): void {
  if (accept.includes(rank)) throw invalid('--accept', `${rank} is the rank of this process`)
  if (!ranksOf(decode).includes(rank)) return
  throw invalid('--decode-workers', `${rank} is the rank of this process`)
}

function integerOf(flag: string, value: unknown): number {
  if (/^\d{1,15}$/.test(String(value))) return Number(value)
  throw invalid(flag, `${String(value)} is invalid: expected a number`)
}

/** As messages name it. */
function rankOf(flag: string, value: unknown): number {
  return atMost(flag, integerOf(flag, value), U32_MAX)
}

function positiveOf(flag: string, value: unknown, most = Infinity): number {
  const number = atMost(flag, integerOf(flag, value), most)
  if (number > 0) return number
  throw invalid(flag, '0 is invalid: expected a positive number')
}

function atMost(flag: string, number: number, most: number): number {
  if (number <= most) return number
  throw invalid(flag, `${number} is invalid: expected at most ${most}`)
}

function addressOf(flag: string, value: unknown): { readonly host: string; readonly port: number } {
  const [, host = '', port] = /^\[?([^\]]+)\]?:(\d{1,5})$/.exec(String(value)) ?? []
  if (port !== undefined && Number(port) <= 65_535) return { host, port: Number(port) }
  throw invalid(flag, `${String(value)} is invalid: expected host:port`)
}

function placeOf(flag: string, value: unknown): Place {
  const [, rank, address] = /^(\d+)=(.+)$/.exec(String(value)) ?? []
  if (rank === undefined)
    throw invalid(flag, `${String(value)} is invalid: expected rank=host:port`)
  return { rank: rankOf(flag, rank), ...addressOf(flag, address) }
}

function invalid(flag: string, message: string): BatonError {
  return new BatonError('config.invalid', `${flag}: ${message}`)
}
