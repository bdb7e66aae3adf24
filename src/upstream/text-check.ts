/**
 * Compares the tokenizers of a server and of Baton: both tokenise 50 texts.
 *
 * A wrong tokenizer cannot be noticed from outside, because answers still look like language. It is therefore
 * checked before the first request, and a server with a different one is not used.
 */
import { BatonError } from '../base/index.ts'
import { renderChat } from '../text/index.ts'
import type { ModelText } from '../text/index.ts'

/** Null: the server cannot answer. */
type ForeignTokenizer = (text: string) => Promise<readonly number[] | null>

const PLAIN_TEXTS = [
  'Hello',
  ' Hello',
  'Hello world',
  'hello  world',
  'The quick brown fox jumps over the lazy dog.',
  'It\'s "fine", isn\'t it? (Yes!)',
  'a',
  ' ',
  '   leading blanks',
  'trailing blanks   ',
  'line one\nline two\n\nline four',
  'tab\tseparated\tvalues',
  'carriage\r\nreturn',
  '0123456789',
  '3.14159 and 1,000,000 and 2^63',
  'x = foo(bar[0]) + baz["key"];',
  'def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\n',
  '<div class="a">text</div>',
  '{"name": "value", "list": [1, 2, 3]}',
  'https://example.org/path?query=1&other=two#part',
  'user@example.org',
  'CamelCaseAndsnake_case_names',
  'UPPER lower MiXeD',
  'naïve café façade',
  'Größe Übung Straße',
  'Привет, мир',
  'Γειά σου Κόσμε',
  'مرحبا بالعالم',
  'שלום עולם',
  'नमस्ते दुनिया',
  '你好，世界',
  'こんにちは世界',
  '안녕하세요 세계',
  'สวัสดีชาวโลก',
  '🙂 👍🏽 👩‍💻',
  'e\u0301 versus é',
  '“quotes” — dashes … dots',
  '½ × ¾ ≈ ⅜',
  'a\u00a0non-breaking\u00a0blank',
  'zero\u200bwidth',
  'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa',
  'once upon a time, there was a little fox',
]

interface ChatTurn {
  readonly role: string
  readonly content: string
}

const CHATS: readonly (readonly ChatTurn[])[] = [
  [{ role: 'user', content: 'Hello' }],
  [{ role: 'user', content: 'Tell me a story about a brave fox.' }],
  [
    { role: 'system', content: 'You are brief.' },
    { role: 'user', content: 'Was ist 2 + 2?' },
  ],
  [
    { role: 'user', content: 'Hi' },
    { role: 'assistant', content: 'Hello! How can I help?' },
    { role: 'user', content: '你好' },
  ],
  [{ role: 'user', content: 'line one\nline two' }],
  [{ role: 'user', content: '  blanks  ' }],
  [{ role: 'user', content: '🙂' }],
  [{ role: 'user', content: '{"a": [1, 2]}' }],
]

interface TextCheckResult {
  /** Number of texts that both tokenised; 0: the server cannot answer. */
  readonly compared: number
  /** The first few texts with different tokens. */
  readonly differing: readonly string[]
}

export async function compareTexts(
  text: ModelText,
  foreign: ForeignTokenizer,
): Promise<TextCheckResult> {
  const differing: string[] = []
  let compared = 0
  for (const sample of samplesOf(text)) {
    const theirs = await foreign(sample)
    if (theirs === null) break
    compared += 1
    const ours = text.tokenizer.encode(sample, { special: true })
    const isSame = ours.length === theirs.length && ours.every((id, i) => id === theirs[i])
    if (!isSame) differing.push(sample)
  }
  return { compared, differing }
}

interface ChatSides {
  /** The server's ids of a conversation that it renders; null: it cannot answer. */
  readonly theirs: (messages: readonly ChatTurn[]) => Promise<readonly number[] | null>
  readonly ours: (text: string, literalRanges: readonly number[]) => Promise<Uint32Array>
}

/** The number of conversations for which server and template give different tokens. */
export async function compareChats(
  { template, tokenizer }: ModelText,
  { ours, theirs }: ChatSides,
): Promise<number> {
  if (template === null) return 0
  let differing = 0
  for (const messages of CHATS) {
    const said = await theirs(messages)
    if (said === null) continue
    const input = { messages: messages.map((turn) => ({ ...turn })) }
    const rendered = renderChat(template, tokenizer, input)
    const ids = await ours(rendered.text, rendered.literalRanges)
    // Some servers omit the BOS token that the tokenizer prepends.
    const rest = ids[0] === tokenizer.bosTokenId && said[0] !== ids[0] ? ids.subarray(1) : ids
    const isSame = rest.length === said.length && rest.every((id, i) => id === said[i])
    if (!isSame) differing += 1
  }
  return differing
}

/** Throws `model.load_failed` when the two differ. `source`: where the compared tokenizer is from. */
export function refuseOtherTokenizer(
  { compared, differing }: TextCheckResult,
  source: string,
): void {
  const [first] = differing
  if (first === undefined) return
  throw new BatonError(
    'model.load_failed',
    `the engine tokenises ${differing.length} of ${compared} texts differently from ${source}, for example ${JSON.stringify(first.slice(0, 60))}: give --model with the model that the engine runs`,
  )
}

function samplesOf({ template, tokenizer }: ModelText): readonly string[] {
  if (template === null) return PLAIN_TEXTS
  const chats = CHATS.flatMap((messages) => {
    try {
      return [renderChat(template, tokenizer, { messages: messages.map((m) => ({ ...m })) }).text]
    } catch {
      // A template may refuse a system message.
      return []
    }
  })
  return [...PLAIN_TEXTS, ...chats]
}
