/** The parts of an engine that runs at an address, from the configuration: beside a worker, or an upstream of a gateway. */
import { BatonError } from '../../base/index.ts'
import { localModelPath } from '../../host/index.ts'
import type { LoadedModelText } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import {
  detectKind,
  ForwardEngine,
  parseUpstreamUrl,
  UpstreamClient,
} from '../../upstream/index.ts'
import type {
  ForwardEngineOptions,
  FoundKind,
  UpstreamEngineOptions,
  UpstreamSpec,
} from '../../upstream/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'

/** For an engine that makes tokens. */
export function engineOptions(
  config: ServeConfig,
  loadText: (path: string) => Promise<LoadedModelText>,
): Omit<UpstreamEngineOptions, 'url' | 'mode'> {
  const { model, isShippedModel, servedModelName, slotSavePath, engineMaxNumSeqs } = config
  return {
    clock: osClock,
    localPath: localModelPath,
    loadText,
    client: clientOptions(config),
    ...(isShippedModel ? {} : { modelPath: model }),
    ...(servedModelName === null ? {} : { servedModelName }),
    ...(engineMaxNumSeqs === null ? {} : { maxNumSeqs: engineMaxNumSeqs }),
    ...(slotSavePath === null ? {} : { slotFolder: slotSavePath }),
  }
}

/** An engine that forwards requests unchanged; this process generates no tokens. */
export function forwardEngine(
  { servedModelName, slotSavePath, engineMaxNumSeqs }: ServeConfig,
  parts: Pick<ForwardEngineOptions, 'client' | 'onLost' | 'mode' | 'kind' | 'onNote'>,
): ForwardEngine {
  return new ForwardEngine({
    ...parts,
    clock: osClock,
    ...(servedModelName === null ? {} : { servedModelName }),
    ...(engineMaxNumSeqs === null ? {} : { maxNumSeqs: engineMaxNumSeqs }),
    ...(slotSavePath === null ? {} : { slotFolder: slotSavePath }),
  })
}

export function upstreamClient(
  { url, hostName }: UpstreamSpec,
  config: ServeConfig,
): UpstreamClient {
  return new UpstreamClient({
    ...clientOptions(config),
    url: parseUpstreamUrl(url, hostName),
    clock: osClock,
  })
}

export async function findKind(spec: UpstreamSpec, config: ServeConfig): Promise<FoundKind> {
  const client = upstreamClient(spec, config)
  try {
    const found = await detectKind(client)
    return spec.kind === undefined ? found : { ...found, kind: spec.kind }
  } finally {
    client.close()
  }
}

function clientOptions(config: ServeConfig): NonNullable<UpstreamEngineOptions['client']> {
  const { engineAnswerSeconds, engineIdleSeconds, engineKey, engineRequests } = config
  return {
    callsMax: engineRequests,
    deadlines: { headMs: engineAnswerSeconds * 1000, idleMs: engineIdleSeconds * 1000 },
    ...(engineKey === null ? {} : { headers: { Authorization: `Bearer ${engineKey}` } }),
  }
}

/** Reports a fault that concerns no single request, for example KV events that cannot be read. */
export function tellFault(thrown: unknown): void {
  console.error(`baton: ${BatonError.from(thrown).message}`)
}
