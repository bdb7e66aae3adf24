import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import { parseAnthropicMessages } from './requests/anthropic-request.ts'
import { parseChatRequest } from './requests/chat-request.ts'
import { parseEmbeddingRequest } from './requests/embedding-request.ts'
import { parseResponsesRequest } from './requests/responses-request.ts'
import { parseDetokenizeRequest } from './requests/service-requests.ts'

type Bound = readonly [field: string, accepted: readonly unknown[], refused: readonly unknown[]]

const EPS = 1e-6
const U32_MAX = 4294967295

/** One test per field: values at and inside the limit are accepted, values beyond it are refused by name. */
function hold(bounds: readonly Bound[], parse: (field: string, value: unknown) => unknown): void {
  for (const [field, accepted, refused] of bounds) {
    it(`${field} - accepted up to the limit, refused beyond it, by name`, () => {
      for (const value of accepted) {
        expect([value, refusal(() => parse(field, value))]).toEqual([value, null])
      }
      for (const value of refused) {
        const error = refusal(() => parse(field, value))
        expect([value, error?.code]).toEqual([value, 'request.invalid_argument'])
        expect(error?.message).toContain(field)
      }
    })
  }
}

describe('bounds of Anthropic messages', () => {
  const base = { max_tokens: 1, messages: [{ role: 'user', content: 'hi' }] }
  hold(
    [
      ['max_tokens', [1, 2, 4096], [0, -1, 1.5]],
      ['temperature', [0, EPS, 1 - EPS, 1], [-EPS, 1 + EPS]],
      ['top_p', [0, EPS, 1 - EPS, 1], [-EPS, 1 + EPS]],
      ['top_k', [-1, 0, 1], [-2, 0.5]],
      ['stop_sequences', [[], ['a']], [[''], 'a', [1]]],
      ['messages', [base.messages], [[], 'hi', [{ role: 'king', content: 'x' }]]],
      [
        'thinking',
        [{ type: 'enabled', budget_tokens: 0 }],
        [{ type: 'enabled', budget_tokens: -1 }],
      ],
    ],
    (field, value) => parseAnthropicMessages({ ...base, [field]: value }),
  )

  it('max_tokens - is required', () => {
    const error = refusal(() => parseAnthropicMessages({ messages: base.messages }))
    expect(error?.message).toContain('max_tokens')
  })
})

describe('bounds of responses', () => {
  it('hints of agents that change nothing here - are accepted', () => {
    const hints = {
      context_management: [{ type: 'compaction', compact_threshold: 1000 }],
      reasoning: { effort: 'low', summary: null, generate_summary: null },
    }
    expect(refusal(() => parseResponsesRequest({ input: 'hi', ...hints }))).toBeNull()
    const messages = [{ role: 'user', content: 'hi' }]
    const chat = { messages, cache_control: { type: 'ephemeral' } }
    expect(refusal(() => parseChatRequest(chat))).toBeNull()
  })

  hold(
    [
      ['temperature', [0, EPS, 2 - EPS, 2], [-EPS, 2 + EPS]],
      ['top_p', [0, EPS, 1 - EPS, 1], [-EPS, 1 + EPS]],
      ['max_output_tokens', [1, 2], [0, -1, 1.5]],
      ['truncation', ['disabled', 'auto'], ['none', 1]],
      ['top_logprobs', [0, 1, 20], [21, -1, 1.5]],
      ['input', ['', 'hi', [{ role: 'user', content: 'hi' }]], [[], 5]],
    ],
    (field, value) => parseResponsesRequest({ input: 'hi', [field]: value }),
  )
})

describe('refusals', () => {
  it('a value with several forms - the error concerns the form that was meant', () => {
    const refusals: [() => unknown, string][] = [
      [
        () => parseResponsesRequest({ input: [{ role: 'king', content: 'x' }] }),
        '`input[0].role`: Invalid option',
      ],
      [
        () => parseResponsesRequest({ input: [{ type: 'dance' }] }),
        '`input[0]`: must be a message',
      ],
      [() => parseEmbeddingRequest({ input: {} }), '`input`: must be a text, texts, token ids'],
      [() => parseEmbeddingRequest({ input: ['a', 1] }), '`input[1]`'],
    ]
    const content = (block: unknown) => () =>
      parseAnthropicMessages({ max_tokens: 1, messages: [{ role: 'user', content: [block] }] })
    refusals.push([content({ type: 'image' }), 'content block type "image" is not supported'])
    refusals.push([content({ type: 'text' }), '`messages[0].content[0].text`'])
    for (const [parse, message] of refusals) expect(parse).toThrow(message)
  })
})

describe('bounds of embeddings', () => {
  const many = (count: number) => Array.from({ length: count }, () => 1)
  const texts = (count: number) => Array.from({ length: count }, () => 'a')
  hold(
    [
      ['dimensions', [1, 2], [0, -1, 1.5]],
      ['encoding_format', ['float', 'base64'], ['hex']],
      ['input', ['a', ['a'], many(1), [many(2)], [U32_MAX]], [[], [[]], [-1], [U32_MAX + 1]]],
      ['input', [texts(2047), texts(2048)], [texts(2049)]],
    ],
    (field, value) => parseEmbeddingRequest({ input: 'hi', [field]: value }),
  )
})

describe('bounds of detokenize', () => {
  const ids = (count: number) => Array.from({ length: count }, () => 7)
  hold(
    [
      [
        'tokens',
        [[], [0, U32_MAX], ids(262_143), ids(262_144)],
        [ids(262_145), [-1], [U32_MAX + 1]],
      ],
    ],
    (field, value) => parseDetokenizeRequest({ [field]: value }),
  )
})

describe('bounds of nvext', () => {
  const chat = (nvext: unknown) =>
    parseChatRequest({ messages: [{ role: 'user', content: 'hi' }], nvext })
  const u32 = [
    [0, 1, U32_MAX - 1, U32_MAX],
    [-1, 0.5, U32_MAX + 1],
  ] as const
  const id = [
    [0, 1, '18446744073709551614', '18446744073709551615'],
    [-1, 0.5, '18446744073709551616', 'x'],
  ] as const
  hold(
    [
      ['backend_instance_id', ...id],
      ['prefill_worker_id', ...id],
      ['decode_worker_id', ...id],
      ['dp_rank', ...u32],
      ['prefill_dp_rank', ...u32],
      ['max_thinking_tokens', ...u32],
      ['token_data', [[0, U32_MAX]], [[-1], [U32_MAX + 1]]],
      ['request_timestamp_ms', [0, 1], [-1]],
    ],
    (field, value) => chat({ [field]: value }),
  )
  hold(
    [
      ['priority', [-2147483648, 0, 2147483647], [-2147483649, 2147483648]],
      ['strict_priority', ...u32],
      ['osl', ...u32],
      ['latency_sensitivity', [0, EPS], [-EPS]],
    ],
    (field, value) => chat({ agent_hints: { [field]: value } }),
  )
  hold(
    [
      ['session_id', ['s', 's'.repeat(255), 's'.repeat(256)], ['', ' ', 's'.repeat(257)]],
      ['timeout', [EPS, 300], [0, -1]],
      ['action', ['open', 'close', 'bind'], ['shut']],
    ],
    (field, value) => chat({ session_control: { session_id: 's', [field]: value } }),
  )
  hold(
    [
      ['overlap_score_weight', [0, EPS], [-EPS]],
      ['temperature', [0, EPS], [-EPS]],
      ['ttft_target', [EPS], [0, -1]],
      ['itl_target', [EPS], [0, -1]],
    ],
    (field, value) => chat({ router: { [field]: value } }),
  )
})
