/**
 * The bytes of a reply as the bare servers write them.
 */
const ID = 'chatcmpl-00000000-0000-4000-8000-000000000000'
export const EVENT = `data: {"id":"${ID}","object":"chat.completion.chunk","created":1795268504,"model":"storyteller","choices":[{"index":0,"delta":{"content":" word"},"logprobs":null,"finish_reason":null}],"usage":null}\n\n`
export const BODY = `{"id":"${ID}","object":"chat.completion","created":1795268503,"model":"storyteller","choices":[{"index":0,"message":{"role":"assistant","content":" word","refusal":null},"logprobs":null,"finish_reason":"length"}],"usage":{"prompt_tokens":111,"completion_tokens":1,"total_tokens":112}}`
