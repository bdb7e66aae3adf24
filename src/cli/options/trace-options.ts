/**
 * Options of tracing; the variables of the OpenTelemetry specification are read too.
 */
import { spec } from './option-spec.ts'
import { amount, httpAddress, text } from './option-values.ts'

export const TRACE_OPTIONS = [
  {
    ...spec(
      'operation',
      'otlpEndpoint',
      '<url>',
      httpAddress,
      null,
      'OpenTelemetry receiver (OTLP over HTTP, for example http://localhost:4318) that receives a trace of each request; also OTEL_EXPORTER_OTLP_ENDPOINT; docs/tracing.md',
    ),
    standardVariable: 'OTEL_EXPORTER_OTLP_ENDPOINT',
  },
  {
    ...spec(
      'operation',
      'otelServiceName',
      '<name>',
      text,
      'baton',
      'service name in traces; also OTEL_SERVICE_NAME',
    ),
    standardVariable: 'OTEL_SERVICE_NAME',
  },
  spec(
    'http',
    'traceSampleRatio',
    '<share>',
    amount(0, 1),
    1,
    'share of requests that are traced, 0 to 1; for a client that sends traceparent, its sampling flag decides',
  ),
]
