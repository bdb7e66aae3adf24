/** The engine of `baton worker --engine-url`: a server beside the worker. */
import { BatonError } from '../../base/index.ts'
import { EXIT_FAILED, loadModelText } from '../../host/index.ts'
import type { DisaggregationMode } from '../../request/index.ts'
import { kvEventPlaces, RemoteTexts, UPSTREAM_KINDS, UpstreamEngine } from '../../upstream/index.ts'
import type { ForwardEngine } from '../../upstream/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import {
  engineOptions,
  findKind,
  forwardEngine,
  tellFault,
  upstreamClient,
} from './upstream-parts.ts'

export function createSidecarEngine(
  config: ServeConfig,
  mode: DisaggregationMode,
): UpstreamEngine | ForwardEngine {
  const { engine, engineUrl } = config
  if (engineUrl === null) {
    throw new BatonError(
      'config.invalid',
      `--engine ${engine}: --engine-url is missing, for example http://127.0.0.1:8000`,
    )
  }
  const kind = UPSTREAM_KINDS.find((name) => name === engine)
  const named = kind === undefined ? {} : { kind }
  const onNote = (note: string): void => console.error(`baton: ${engineUrl} ${note}`)
  // The supervisor of this process starts it again (systemd: also with `Restart=on-failure`), and the new process waits
  // for its engine.
  const onLost = ({ message }: BatonError): void => {
    console.error(`baton: the engine at ${engineUrl} is lost: ${message}`)
    process.exitCode = EXIT_FAILED
    process.kill(process.pid, 'SIGTERM')
  }
  if (config.forward && config.isShippedModel) {
    return forwardEngine(config, {
      ...named,
      client: upstreamClient({ url: engineUrl }, config),
      mode,
      onNote,
      onLost,
    })
  }
  return new UpstreamEngine({
    ...engineOptions(config, loadModelText),
    ...named,
    url: engineUrl,
    remoteTexts: new RemoteTexts(),
    givesIdsOnly: true,
    mode,
    onFault: tellFault,
    ...(config.engineKvEvents === null
      ? {}
      : { kvEventPlaces: kvEventPlaces(config.engineKvEvents) }),
    onNote,
    onLost,
  })
}

/**
 * The role that the server at `--engine-url` reports; null: it reports none, is not a known engine, or is not
 * up yet.
 */
export async function modeOfSidecar(config: ServeConfig): Promise<DisaggregationMode | null> {
  if (config.engineUrl === null) return null
  const found = await findKind({ url: config.engineUrl }, config).catch(() => null)
  return found?.mode ?? null
}
