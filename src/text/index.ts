/** Room `text`: text ↔ tokens: tokenizers, chat template, detokeniser, stop strings, reasoning and tool calls. */
export { Detokenizer } from './detokenizer.ts'
export { readGgufHeader } from './gguf-header.ts'
export type { GgufHeader } from './gguf-header.ts'
export { readGgufMetadata } from './gguf-metadata.ts'
export type { GgufMetadata } from './gguf-metadata.ts'
export { tokenizerFromGguf } from './gguf-tokenizer.ts'
export { modelTextFromGguf, modelTextFromHuggingFace } from './model-text.ts'
export type { ModelText } from './model-text.ts'
export { guidedGrammar } from './grammar/guided-grammar.ts'
export { createOutputParser, detectOutputFormat } from './output/model-output-parser.ts'
export type { OutputFormat } from './output/model-output-parser.ts'
export type { OutputEvent, OutputParser } from './output/output-event.ts'
export { createReasoningParser, REASONING_PARSER_NAMES } from './output/reasoning-formats.ts'
export {
  createForcedCallParser,
  createToolCallParser,
  TOOL_CALL_PARSER_NAMES,
} from './output/tool-formats.ts'
export { encodeChat, renderChat } from './render-chat.ts'
export { StopStrings } from './stop-strings.ts'
export type { EncodeOptions, Tokenizer } from './tokenizer.ts'
