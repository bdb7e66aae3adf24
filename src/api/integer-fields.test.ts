/** Every integer field of every endpoint, with values that clients send by mistake. */
import { describe, expect, it } from 'vitest'
import { refusal } from '../../test/api/refusal.ts'
import { parseAnthropicMessages } from './requests/anthropic-request.ts'
import { parseChatRequest } from './requests/chat-request.ts'
import { parseCompletionRequest } from './requests/completion-request.ts'
import { parseEmbeddingRequest } from './requests/embedding-request.ts'
import { parseRerank } from './requests/rerank-request.ts'
import { parseResponsesRequest } from './requests/responses-request.ts'
import { parseBusyThreshold } from './requests/service-requests.ts'
import { parseTokenRequest } from './requests/token-request.ts'

const VALUES: readonly unknown[] = [0, -1, 1.5, 1e300, '1', null, true]
const messages = [{ role: 'user', content: 'hi' }]

type Fields = Record<string, unknown>
type Case = readonly [
  endpoint: string,
  parse: (fields: Fields) => unknown,
  /** Whether 0, -1 and null are accepted. */
  fields: Readonly<Record<string, readonly [zero: boolean, minusOne: boolean, isNull: boolean]>>,
]

const NATURAL = [true, false, true] as const
const POSITIVE = [false, false, true] as const
const ANY = [true, true, true] as const

const SHARED = {
  n: POSITIVE,
  max_tokens: NATURAL,
  min_tokens: NATURAL,
  top_k: ANY,
  seed: ANY,
  prompt_logprobs: NATURAL,
}

const CASES: readonly Case[] = [
  // Zero means none, as in the schemas of OpenAI and Dynamo.
  [
    'completions',
    (more) => parseCompletionRequest({ prompt: 'hi', ...more }),
    { ...SHARED, logprobs: NATURAL, best_of: NATURAL },
  ],
  [
    'chat',
    (more) => parseChatRequest({ messages, logprobs: true, ...more }),
    { ...SHARED, max_completion_tokens: NATURAL, top_logprobs: NATURAL },
  ],
  [
    'tokens',
    (more) => parseTokenRequest({ token_ids: [1], sampling_params: more }),
    { ...SHARED, logprobs: NATURAL },
  ],
  [
    'nvext',
    (more) => parseChatRequest({ messages, nvext: more }),
    {
      max_thinking_tokens: NATURAL,
      dp_rank: NATURAL,
      prefill_dp_rank: NATURAL,
    },
  ],
  [
    'agent hints',
    (more) => parseChatRequest({ messages, nvext: { agent_hints: more } }),
    { priority: ANY, strict_priority: NATURAL, osl: NATURAL },
  ],
  [
    'responses',
    (more) => parseResponsesRequest({ input: 'hi', ...more }),
    { max_output_tokens: POSITIVE, top_logprobs: NATURAL, max_tool_calls: POSITIVE },
  ],
  [
    'messages',
    (more) => parseAnthropicMessages({ messages, max_tokens: 1, ...more }),
    { max_tokens: [false, false, false], top_k: ANY },
  ],
  [
    'embeddings',
    (more) => parseEmbeddingRequest({ input: 'hi', ...more }),
    { dimensions: POSITIVE },
  ],
  ['rerank', (more) => parseRerank({ query: 'a', documents: ['b'], ...more }), { top_n: NATURAL }],
  [
    'busy thresholds',
    (more) => parseBusyThreshold({ model: 'm', ...more }),
    { active_prefill_tokens_threshold: NATURAL },
  ],
]

describe('integer fields', () => {
  for (const [endpoint, parse, fields] of CASES) {
    it.each(Object.entries(fields))(
      `${endpoint}: %s - refused by name unless it is an integer in its range`,
      (field, [zero, minusOne, isNull]) => {
        const accepted = VALUES.filter((value) => {
          const error = refusal(() => parse({ [field]: value }))
          if (error !== null)
            expect([value, error.row.httpStatus, error.message]).toEqual([
              value,
              400,
              expect.stringContaining(field),
            ])
          return error === null
        })
        expect(accepted).toEqual([
          ...(zero ? [0] : []),
          ...(minusOne ? [-1] : []),
          ...(isNull ? [null] : []),
        ])
      },
    )
  }
})
