/**
 * The rules of the conformance kit by name. Rules for single items are those of the stream validator; the others need
 * a whole engine.
 */
import { STREAM_RULES } from '../validate-stream.ts'

export const CONFORMANCE_RULES = {
  ...STREAM_RULES,
  'start-failed': '`start` must resolve.',
  'model-empty': 'The engine config must name a model.',
  'config-invalid':
    'Numbers in the engine config must be positive integers, names must not be empty, and every field must be a plain value.',
  'generate-failed': '`generate` must return a stream for a plain request and must not throw.',
  'no-chunks': 'A stream must have at least one item.',
  'stream-error': 'A plain request must not end with an error.',
  'stream-not-closed': 'After the terminal item the iterator must be done.',
  'response-timeout': 'A plain request must be answered within the deadline.',
  'concurrent-generate-failed': 'Eight concurrent requests must all be answered.',
  'streams-mixed':
    'A stream must have the tokens of its own request, also while other requests run.',
  'stray-error':
    'No error may occur outside a call of the contract, such as an unhandled rejection or a timer that throws.',
  'prefill-result-missing': 'A stream of a prefill worker must end with a `prefillResult`.',
  'seed-not-repeatable':
    'An engine with the feature `seed` must give the same output for the same seed.',
  'embedding-wrong':
    'An engine with the feature `embeddings` must return a finite vector of `embeddingLength` numbers, equal for equal tokens, also while other requests run.',
  'cancellation-not-observed':
    'A stopped stream must end within the deadline, also before its first item.',
  'kill-not-observed': 'A killed stream must end within the deadline.',
  'cancel-hurts-others': 'Stopping a stream must not affect other streams.',
  'drop-not-observed': 'Closing a running stream must return within the deadline.',
  'drop-not-released': 'A closed stream must release its resources.',
  'generate-before-start': 'An engine that was not started must refuse requests.',
  'abort-failed':
    '`abort` of an ended or unknown request must have no effect, also on others that run.',
  'health-check-failed': 'The health check request must be answered.',
  'observe-failed': '`observe` must not throw.',
  'rank-unknown': 'KV events and load reports must be of ranks that the engine config names.',
  'kv-event-malformed':
    'KV events, and the events that `heldKv` returns, must be of a known kind and tier; hashes must be a `Uint32Array` of pairs, low half first.',
  'kv-event-parent-unknown': 'The parent of a stored block must be stored.',
  'kv-event-removed-unknown': 'Only stored blocks may be removed, each copy once.',
  'load-report-invalid':
    'Load reports must have integers, and not more active blocks than blocks in total.',
  'kv-blocks-invalid':
    '`kvBlocks` must pin whole blocks from the first one on, with one key per block, and return the bytes of pinned blocks, which are not those of another `salt` or `loraName`; `release` must be idempotent.',
  'metrics-failed': '`metrics` must not throw.',
  'metrics-invalid':
    '`metrics` must return a list of unique metrics, each with a valid name, help, kind and number; metrics of one name must have one kind and the same label names; names of counters must end in `_total`.',
  'metrics-unstable': 'Two calls of `metrics` on an idle engine must return the same metrics.',
  'counter-decreases': 'A counter must never decrease.',
  'quiescence-wrong': '`isQuiescent` must return true, false or null.',
  'drain-failed':
    '`drain` must return a promise that resolves within the deadline, and must not end a running stream.',
  'cleanup-failed': '`cleanup` must resolve within the deadline.',
  'cleanup-leaves-streams': '`cleanup` must end running streams.',
  'second-cleanup-failed': 'A second call of `cleanup` must work.',
  'cleanup-without-start-failed': '`cleanup` must work on an engine that was never started.',
} as const

export type ConformanceRule = keyof typeof CONFORMANCE_RULES
