/**
 * What the conformance kit can find wrong with an engine, by name. The rules of single items are those of the
 * stream validator; here are the ones that need a whole engine.
 */
import { STREAM_RULES } from '../validate-stream.ts'

export const CONFORMANCE_RULES = {
  ...STREAM_RULES,
  'start-failed': '`start` resolves.',
  'model-empty': 'The engine config names a model.',
  'config-invalid': 'Numbers of the engine config are whole and positive, names are not empty.',
  'generate-failed': 'A plain request is answered by a stream, not by a throw.',
  'no-chunks': 'A stream has at least one item.',
  'stream-error': 'A plain request does not end in an error.',
  'stream-not-closed': 'After the terminal item the iterator is done.',
  'response-timeout': 'A plain request is answered within the deadline.',
  'concurrent-generate-failed': 'Eight requests at once are all answered.',
  'streams-mixed': 'A stream has the tokens of its own request, also beside others.',
  'stray-error':
    'Nothing fails outside a call of the contract: no promise without a handler, no timer that throws.',
  'prefill-result-missing': 'A prefill worker ends with a `prefillResult`.',
  'seed-not-repeatable': 'An engine with feature `seed` repeats itself under the same seed.',
  'embedding-wrong':
    'An engine with feature `embeddings` gives a finite vector of `embeddingLength`, the same for the same tokens.',
  'cancellation-not-observed':
    'A stopped stream ends within the deadline, also before its first item.',
  'kill-not-observed': 'A killed stream ends within the deadline.',
  'cancel-hurts-others': 'Streams beside stopped ones go on unharmed.',
  'drop-not-observed': 'Closing a stream that is not at its end returns within the deadline.',
  'drop-not-released': 'A dropped stream gives back what it held.',
  'generate-before-start': 'An engine that was not started refuses requests.',
  'abort-failed': '`abort` of a request that is gone or unknown does no harm.',
  'health-check-failed': 'The health check request is answered.',
  'observe-failed': '`observe` does not throw.',
  'rank-unknown': 'KV events and load are of the ranks that the engine config names.',
  'kv-event-malformed':
    'KV events, and what `heldKv` returns, are of a known kind and tier; hashes are a `Uint32Array` of pairs, low half first.',
  'kv-event-parent-unknown': 'A stored block follows one that is stored.',
  'kv-event-removed-unknown': 'Only what was stored is removed.',
  'load-report-invalid':
    'Load reports hold whole numbers and not more active blocks than there are.',
  'metrics-failed': '`metrics` does not throw.',
  'metrics-invalid':
    'Metrics are a list, each with a name, help, a kind and a number that can be shown, and each once; counters end in `_total`.',
  'metrics-unstable': 'Two readings of an idle engine have the same metrics.',
  'counter-decreases': 'A counter never goes down.',
  'quiescence-wrong': '`isQuiescent` returns true, false or null.',
  'drain-failed':
    '`drain` of an idle engine returns a promise, which resolves within the deadline.',
  'cleanup-failed': '`cleanup` resolves within the deadline.',
  'cleanup-leaves-streams': '`cleanup` ends the streams that are live.',
  'second-cleanup-failed': '`cleanup` can be called again.',
  'cleanup-without-start-failed': '`cleanup` works on an engine that was never started.',
} as const

export type ConformanceRule = keyof typeof CONFORMANCE_RULES
