/**
 * Traces as the options want them. OpenTelemetry is loaded here and only when there is a receiver.
 */
import { loadTraces } from '../../host/index.ts'
import type { Traces, TracesOptions } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from './version.ts'

export type OpenTraces = (parts: Pick<TracesOptions, 'decisionsOf' | 'onProblem'>) => Traces

/** Null: no traces are asked for. */
export async function traceSettings(config: ServeConfig): Promise<OpenTraces | null> {
  const { otlpEndpoint: endpoint, otelServiceName: serviceName, traceSampleRatio } = config
  if (endpoint === null) return null
  const open = await loadTraces()
  return (parts) =>
    open({
      ...parts,
      clock: osClock,
      endpoint,
      serviceName,
      version: BATON_VERSION,
      sampleRatio: traceSampleRatio,
    })
}
