/**
 * Loads OpenTelemetry on demand, and says in one sentence what to install when it is missing.
 */
import { BatonError } from '../../base/index.ts'
import type { ReceiverOptions, Traces, TracesOfWorkers, TracesOptions } from './traces.ts'

/** The packages are optional because they take 34 MB. These are the tested versions. */
const TRACE_PACKAGES = [
  '@opentelemetry/api@1.9.0',
  '@opentelemetry/exporter-trace-otlp-http@0.223.1',
  '@opentelemetry/resources@2.12.1',
  '@opentelemetry/sdk-trace-node@2.12.0',
  '@opentelemetry/semantic-conventions@1.45.0',
]

interface TraceMakers {
  readonly otlpTraces: (options: TracesOptions) => Traces
  readonly otlpWorkerTraces: (options: ReceiverOptions) => TracesOfWorkers
}

/** Throws `config.invalid` when the packages are not installed. */
export async function loadTraces(): Promise<TraceMakers> {
  try {
    return await import('./otlp-traces.ts')
  } catch (cause) {
    throw new BatonError(
      'config.invalid',
      `--otlp-endpoint needs packages that are not installed: run \`npm i ${TRACE_PACKAGES.join(' ')}\``,
      { cause },
    )
  }
}
