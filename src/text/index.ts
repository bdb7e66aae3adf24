/** Room `text`: text ↔ tokens: tokenizers, chat template, detokeniser, stop strings, reasoning and tool calls. */
export { ChatTemplate, encodeChat, flattenContent, renderChat } from './chat-template.ts'
export type {
  ChatContentPart,
  ChatInput,
  ChatMessage,
  ChatTemplateOptions,
  RenderedChat,
} from './chat-template.ts'
export { Detokenizer } from './detokenizer.ts'
export type { DetokenizerOptions } from './detokenizer.ts'
export type { GgufNumbers, GgufValue } from './gguf-cursor.ts'
export { readGgufMetadata } from './gguf-metadata.ts'
export type { GgufMetadata, GgufRead } from './gguf-metadata.ts'
export { tokenizerFromGguf } from './gguf-tokenizer.ts'
export { modelTextFromGguf, modelTextFromHuggingFace } from './model-text.ts'
export type { HuggingFaceFiles, ModelText } from './model-text.ts'
export { createOutputParser, detectOutputFormat } from './output/model-output-parser.ts'
export type { ModelOutputOptions, OutputFormat } from './output/model-output-parser.ts'
export type { OfferedTool, OutputEvent, OutputParser, ToolCall } from './output/output-event.ts'
export { createReasoningParser, REASONING_PARSER_NAMES } from './output/reasoning-formats.ts'
export { createToolCallParser, TOOL_CALL_PARSER_NAMES } from './output/tool-formats.ts'
export { StopStrings } from './stop-strings.ts'
export type { StopResult, StopStringsOptions } from './stop-strings.ts'
export { tokenizerFromJson } from './tokenizer-json.ts'
export type { TokenizerJsonOptions } from './tokenizer-json.ts'
export type { AddedToken, EncodeOptions, Tokenizer } from './tokenizer.ts'
