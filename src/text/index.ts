/**
 * Room `text`: conversion between text and tokens: tokenizers, chat templates, detokenizer, stop strings, and parsers
 * for reasoning and tool calls.
 *
 * Owns tokenizers (`tokenize/`, `gguf/`), chat templates (`template/`), the detokenizer and stop strings
 * (`detokenize/`), output parsers (`output/`, `channels/`) and their formats (`formats/`), and grammars for
 * structured output (`grammar/`, `gbnf/`). May use: base, request. For: the frontend; an engine that needs a grammar.
 */
export { ChatTemplate } from './template/chat-template.ts'
export { alphabetToBytes } from './tokenize/byte-alphabet.ts'
export type { AddedToken } from './tokenize/tokenizer.ts'
export { Detokenizer } from './detokenize/detokenizer.ts'
export { takeUnknownToken } from './detokenize/token-pieces.ts'
export { readGgufHeader } from './gguf/gguf-header.ts'
export type { GgufHeader } from './gguf/gguf-header.ts'
export { readGgufMetadata, readGgufMetadataBytes } from './gguf/gguf-metadata.ts'
export type { GgufMetadata } from './gguf/gguf-metadata.ts'
export { tokenizerFromGguf } from './tokenize/gguf-tokenizer.ts'
export { modelTextFromGguf, modelTextFromHuggingFace } from './model/model-text.ts'
export type { ModelText } from './model/model-text.ts'
export { textOfGrammar } from './gbnf/gbnf-text.ts'
export { guidedGrammar } from './grammar/guided-grammar.ts'
export { withPlainBounds } from './grammar/plain-bounds.ts'
export { callGrammar, modelOutputGrammar } from './gbnf/model-output-gbnf.ts'
export type { ModelOutputForm } from './gbnf/model-output-gbnf.ts'
export { GuidedOutputParser } from './output/guided-output-parser.ts'
export { createOutputParser, detectOutputFormat } from './formats/model-output-parser.ts'
export type { OutputFormat } from './formats/model-output-parser.ts'
export type { OutputEvent, OutputParser } from './output/output-event.ts'
export {
  createReasoningParser,
  isReasoningParser,
  REASONING_PARSER_NAMES,
  thoughtClosingOf,
  thoughtFormOf,
} from './formats/reasoning-formats.ts'
export {
  callFormsOf,
  createForcedCallParser,
  createToolCallParser,
  isToolCallParser,
  TOOL_CALL_PARSER_NAMES,
} from './formats/tool-formats.ts'
export { encodeChat, renderChat, renderChatInSteps } from './template/render-chat.ts'
export type { RenderedChat } from './template/render-chat.ts'
export { StopStrings } from './detokenize/stop-strings.ts'
export { isLongerThan, tokenFloorOf } from './tokenize/token-floor.ts'
export type { EncodeOptions, Tokenizer } from './tokenize/tokenizer.ts'
