/**
 * Options of traces; the variables of OpenTelemetry's own specification count as well.
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
      'OpenTelemetry receiver (OTLP over HTTP, for example http://localhost:4318) that gets a trace of each request; also OTEL_EXPORTER_OTLP_ENDPOINT; docs/tracing.md',
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
    'share of the requests that are traced; a client that sends traceparent has decided itself',
  ),
]
