/**
 * A text of many scripts: from its tokens the bytes of those are learned that end within a character, because the
 * server reports these only together with others.
 */
const WORDS =
  'The quick brown fox jumps over the lazy dog.\n\n0123456789 naïve Größe Übung façade Привет мир Γειά σου مرحبا שלום नमस्ते 你好世界 こんにちは 안녕하세요 สวัสดี'
const SYMBOLS = '“”‘’—–…•·×÷±≈≤≥←→↑↓★☆✓✗½¼€£¥©®™°§¶†‡'
const EMOJI =
  '🙂😀😂🤣😊😍😘😎😢😭😡👍👎👏🙏💪❤💔🔥✨🎉🚀🌍🌙⭐🐶🐱🦊🐻🍎🍕☕🏠🚗✈📱💻📚🎵⚽🏆💡🔑🛑⚠✅❌'

/** One character of each block of 64 from U+0080 to U+FFFF: all first two bytes of three-byte characters. */
function oneOfEachBlock(): string {
  let text = ''
  for (let code = 0x80; code < 0x10000; code += 0x40) {
    const isSurrogate = code >= 0xd800 && code <= 0xdfff
    const isPrivate = code >= 0xe000 && code <= 0xf8ff
    if (!isSurrogate && !isPrivate) text += String.fromCharCode(code + 0x21)
  }
  return text
}

export const LEARNING_TEXT = `${WORDS} ${SYMBOLS} ${EMOJI} ${oneOfEachBlock()}`
