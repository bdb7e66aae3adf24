/**
 * Texts that are difficult for tokenizers: all kinds of white space, scripts, combining marks and lone surrogates.
 */
import { randomInt, seededRandom } from '../../src/base/index.ts'

export const UNKIND_TEXTS: readonly string[] = [
  '',
  ' ',
  '  ',
  '   leading and trailing   ',
  'Hello',
  'Hello world, this is a test.',
  ' Hello',
  "I'm sure they'll say it's HE'LL or We'Ve 'tis 'S",
  'tabs\tand\t\tmore\t\n\n\r\n lines\r\r\n   end\n',
  '\n',
  '\n\n\n  \n',
  'numbers 1 12 123 1234 12345 3.14159 1,000,000 ½ ² Ⅷ ٣٤٥',
  'camelCaseWords and SHOUTING snake_case kebab-case a.b.c x=y==z',
  '!!! ??? ... --- *** ((())) [] {} <> $ + = ~ ^ ` |',
  'if (a<b && c>d) { return "x\\n"; } // done\n\tfoo();\n',
  '🎉 party 🎉🎉 👩‍👩‍👧‍👦 family 🏳️‍🌈 flag 🇩🇪🇯🇵 👍🏽',
  '你好，世界！こんにちは世界 안녕하세요 세계',
  'ภาษาไทย हिन्दी தமிழ் עברית العربية فارسی',
  'e\u0301 a\u0308o\u0308u\u0308 n\u0303 \u0301alone Z\u0351\u0346a\u0300lgo\u0301',
  'é ö ü ß ñ ø Å ﬁ ﬀ Ǆ İ ı ſ K Å',
  'non\u00a0breaking\u2003em\u2009thin\u3000wide\u200bzero\ufeffbom\u0085next\u2028line',
  'soft\u00adhyphen \u202eright-to-left\u202c \u0007bell \u001bescape \u007fdelete',
  'a\u0000b \u0000\u0000 end\u0000',
  'lone \ud800 high, lone \udc00 low, \udc00\ud800 swapped, end \ud83d',
  '\u{10ffff} \u{fffff} \ue000 \uf8ff \ufffd \uffff \ufdd0',
  '𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝟘𝟙𝟚 𐍈 𠀀𠀁',
  '<|im_start|>user\nhi<|im_end|>\n',
  '<|im_start|><|im_end|><|endoftext|>',
  ' <|im_end|> <|im_end |> <|im_end|',
  '<|begin|>x<|end|> y <s> z</s><think>deep</think> <thin k>',
  '<think>\nabc\n</think>\n\n<tool_call>\n{"name": "f", "arguments": {"a": [1, 2.5, null]}}\n</tool_call>',
  '<0x41><0x0A> <unk> ▁ ▁▁a',
  'a'.repeat(300),
  'ab '.repeat(100),
  ' '.repeat(100),
  '=-'.repeat(80),
  Array.from({ length: 120 }, (_, i) => String.fromCharCode(97 + ((i * 7) % 26))).join(''),
  'https://example.org/a/b?c=d&e=%20f#g mail@example.org C:\\x\\y',
]

const ALPHABET = [
  ...Array.from(
    'abcXYZ 012 .,!?\'"<|>[]{}()/\\_-=+\n\r\t  éöß你好世界🎉👩‍👧\u0301\u0308\u00a0\u3000٣४',
  ),
  'ing',
  ' the',
  "'s",
  "'LL",
  '<think>',
  '<|end|>',
  '\ud800',
  '\u0000',
]

/** Repeatable random texts; the seed is in the name of the test. */
export function randomTexts(seed: number, count: number): string[] {
  const random = seededRandom(seed)
  return Array.from({ length: count }, () =>
    Array.from(
      { length: 1 + randomInt(random, 40) },
      () => ALPHABET[randomInt(random, ALPHABET.length)]!,
    ).join(''),
  )
}
