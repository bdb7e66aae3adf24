/** Room `text`: text ↔ tokens: tokenizers, chat template, detokeniser, stop strings. */
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
export { StopStrings } from './stop-strings.ts'
export type { StopResult, StopStringsOptions } from './stop-strings.ts'
export { tokenizerFromJson } from './tokenizer-json.ts'
export type { TokenizerJsonOptions } from './tokenizer-json.ts'
export type { AddedToken, EncodeOptions, Tokenizer } from './tokenizer.ts'
