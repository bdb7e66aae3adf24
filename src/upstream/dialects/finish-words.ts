/**
 * What the `finish_reason` of an OpenAI server means. Servers and the gateways before them have words of their own; an
 * answer that was cut off or filtered must not look complete. Failures are in `upstream-error.ts`.
 */

/** Of OpenAI, Mistral, Gemini, Anthropic, Cohere, and of engines. */
const LENGTH =
  /^(length|(model|max)_length|max_(new_|output_|completion_)?tokens|token_limit|(model_)?context_(length|window)_exceeded|incomplete)$/i

/** Of OpenAI, Azure, Gemini, GLM, Anthropic and Bedrock. */
const FILTERED =
  /^(content[_-]filter(ed)?|safety|recitation|prohibited_content|blocklist|sensitive|refusal|guardrail_intervened)$/i

/** Any other word is the model's own end. */
export function finishOfWord(word: string): 'stop' | 'length' | 'content_filter' {
  if (LENGTH.test(word)) return 'length'
  return FILTERED.test(word) ? 'content_filter' : 'stop'
}
