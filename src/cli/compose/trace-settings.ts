/**
 * The trace settings from the options. OpenTelemetry is loaded here, and only when a receiver is configured.
 */
import { createLogger, loadTraces } from '../../host/index.ts'
import type { ReceiverOptions, Traces, TracesOfWorkers, TracesOptions } from '../../host/index.ts'
import { osClock } from '../../os/index.ts'
import type { ServeConfig } from '../options/serve-config.ts'
import { BATON_VERSION } from './version.ts'

export type OpenTraces = (parts: Pick<TracesOptions, 'decisionsOf' | 'onProblem'>) => Traces

/** Null: tracing is off. */
export async function traceSettings(config: ServeConfig): Promise<OpenTraces | null> {
  const receiver = receiverOf(config)
  if (receiver === null) return null
  const { otlpTraces } = await loadTraces()
  return (parts) => otlpTraces({ ...parts, ...receiver, sampleRatio: config.traceSampleRatio })
}

/** For the workers of this process; null: tracing is off. */
export async function workerTraces(config: ServeConfig): Promise<TracesOfWorkers | null> {
  const receiver = receiverOf(config)
  if (receiver === null) return null
  const { otlpWorkerTraces } = await loadTraces()
  const logger = createLogger(config.logLevel)
  const onProblem = (problem: string): void =>
    logger.warn({ problem }, 'traces could not be sent to the receiver')
  return otlpWorkerTraces({ ...receiver, onProblem })
}

function receiverOf({
  otlpEndpoint: endpoint,
  otelServiceName: serviceName,
}: ServeConfig): Omit<ReceiverOptions, 'onProblem'> | null {
  return endpoint === null
    ? null
    : { clock: osClock, endpoint, serviceName, version: BATON_VERSION }
}
